"""What is to be solved: a loss, a sparsity constraint, clients' rows and which of them count."""
