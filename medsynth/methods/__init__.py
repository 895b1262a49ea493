"""The methods: a registry, one module per method, and the parts that several methods share."""
