"""Host-side tiling of Gcd and AsStrided: problems, plans and the platform they are made for. Pure Python."""
