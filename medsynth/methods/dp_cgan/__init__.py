"""DP-CGAN (Torkzadehmahani et al. 2019), and the thyroid study's preset of it."""
