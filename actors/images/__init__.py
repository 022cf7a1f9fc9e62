"""Pictures that a provider makes: how one is asked, what its answer means, and what a picture must be (A1, A10, X1)."""
