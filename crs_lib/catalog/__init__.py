"""The closed movie catalogue: fields, cleaning, index, exact queries."""
