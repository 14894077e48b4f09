"""What is to be solved: rows of clients, and which of them a question is about."""
