"""Tables, figures and document pages made from benchmark records."""
