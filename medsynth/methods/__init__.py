"""The methods: a registry, a folder for each, and what several of them share."""
