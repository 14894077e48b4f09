"""What a fit is to do: one specification for the command line, estimators and federations."""
