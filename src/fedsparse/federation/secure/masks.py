"""Keys that two sites agree on, and the streams of masks that come of keys."""

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedsparse.requests.fixed_sums import Integers

KEY_BYTES = 32
_ANY = X25519PrivateKey.generate()


def agreed_key(private: bytes, public: bytes, context: bytes) -> bytes:
    """The key that two parties get, each from its private and the other's public part (X25519).

    Parameters
    ----------
    private, public
        32 bytes each.
    context
        What the key is for: another context gives another key (HKDF).

    Examples
    --------
    >>> one, other = new_key(), new_key()
    >>> agreed_key(one, public_of(other), b"x") == agreed_key(other, public_of(one), b"x")
    True
    """
    shared = X25519PrivateKey.from_private_bytes(private).exchange(
        X25519PublicKey.from_public_bytes(public)
    )
    return derived_key(shared, context)


def new_key() -> bytes:
    """A private key for `agreed_key`."""
    return X25519PrivateKey.generate().private_bytes_raw()


def public_of(private: bytes) -> bytes:
    """The public part of a private key."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def is_public(key: bytes) -> bool:
    """Whether others can agree on a key with its owner; a few points agree on nothing.

    Examples
    --------
    >>> is_public(public_of(new_key())), is_public(bytes(32)), is_public(b"short")
    (True, False, False)
    """
    try:
        _ANY.exchange(X25519PublicKey.from_public_bytes(key))
    except ValueError:
        return False
    return True


def derived_key(secret: bytes, context: bytes) -> bytes:
    """A key from a secret, for one purpose."""
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=context).derive(secret)


def add_mask(total: Integers, key: bytes, *, is_taken_away: bool = False) -> None:
    """Add the mask of a key to integers in place, or take it away (AES in counter mode).

    A key makes one mask: it must never be used for two.

    Examples
    --------
    >>> numbers = Integers.zeros(3, 2)
    >>> add_mask(numbers, bytes(32))
    >>> bool(numbers.wide.any())
    True
    >>> add_mask(numbers, bytes(32), is_taken_away=True)
    >>> bool(numbers.wide.any())
    False
    """
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    mask = Integers.from_bytes(stream.update(bytes(total.length)), total.sizes)
    total.add(mask.negated() if is_taken_away else mask)
