"""Secure sums: a server learns what sites' answers add up to, and nothing else.

After Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning", CCS
2017: `site_masking` is what a site does, `unmasking` what the server does, `statements` what both
sign and send.
"""
