"""DP-MERF (Harder, Adamczewski, Park 2020): one noised mean embedding of random features."""
