"""Sites with keys of their own, for tests of secure sums."""

from functools import cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedsparse.federation.secure.site_masking import SiteMasking
from fedsparse.federation.sites.policy import Policy
from fedsparse.federation.sites.site import Site


@cache
def key_of(name):
    """The long-term key of a site."""
    return Ed25519PrivateKey.generate()


class Roster:
    """Knows the keys of all sites."""

    def verify(self, name, signature, message):
        try:
            key_of(name).public_key().verify(signature, message)
        except InvalidSignature:
            return False
        return True


ROSTER = Roster()


def masking_of(name):
    """What a site that has just been started does for secure sums."""
    return SiteMasking(name, key_of(name), ROSTER)


def secure_site(name, table, policy=None, questions=None):
    """A site that hides its answers in sums."""
    policy = Policy(smallest_samples=1) if policy is None else policy
    return Site(name, table, policy, 1, masking=masking_of(name), questions=questions)
