"""What measures the claims: experiments and benchmarks. The product does not import it."""
