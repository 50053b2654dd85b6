"""Tables, figures and a page made from records."""
