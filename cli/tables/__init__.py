"""What `fit`, `plan`, `sample` and `report` do where there are several tables."""
