"""Clients' rows as blocks on a device, and answers as batched products; needs torch.

Models are a dimension of every product: of M models with c classes each a block of n clients has
M · c vectors a client, so that a pass over the rows serves all of them. Only sums over clients
leave the device.
"""
