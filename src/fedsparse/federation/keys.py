"""The server's keys: a private authority, and a certificate that it signs.

Sites trust no other authority. They make keys of their own (`fedsparse.federation.site_keys`).

The server's certificate is written last. Without it nothing has been used, and what an earlier
try left behind is made anew; an authority that is complete is kept.
"""

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedsparse.errors import OptionError
from fedsparse.federation.folder import ServerFolder
from fedsparse.files import PRIVATE_FILE, ready_private_folder, write_atomically

VALID_DAYS = 825
"""Longest that common software accepts for a server's certificate."""

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_CLOCK_SKEW = datetime.timedelta(hours=1)


def make_keys(folder: ServerFolder, hosts: Sequence[str]) -> None:
    """Write what is not there yet, or was left half made; what exists is never replaced.

    Parameters
    ----------
    folder
        Where.
    hosts
        Names or addresses by which sites reach the server, for a new certificate.

    Examples
    --------
    >>> import tempfile
    >>> folder = ServerFolder(Path(tempfile.mkdtemp()) / "federation")
    >>> make_keys(folder, ["server.example.org"])
    >>> sorted(path.name for path in folder.root.iterdir())
    ['ca.crt', 'ca.key', 'server.crt', 'server.key']
    """
    alternatives = [_alternative(host) for host in dict.fromkeys([*hosts, *_LOOPBACK])]
    has_authority = _is_pair(folder.authority_key, folder.authority)
    if _is_pair(folder.key, folder.certificate):
        _check_authority(folder, has_authority)
        if hosts:
            raise OptionError(
                f"{folder.certificate} exists and keeps its hosts; leave --host out, delete that "
                "file to have a new one from the same authority, or choose another folder"
            )
        ready_private_folder(folder.root)
        return
    if not hosts:
        raise OptionError("name the host by which sites reach the server with --host")
    ready_private_folder(folder.root)
    if not has_authority:
        _make_authority(folder)
    _make_certificate(folder, hosts[0], alternatives)


def _check_authority(folder: ServerFolder, has_authority: bool) -> None:
    """Refuse a server whose authority is gone: sites know the server by it."""
    if not has_authority:
        raise OptionError(
            f"{folder.authority} and {folder.authority_key} do not belong together, or one is "
            f"missing; put them back, or delete {folder.certificate} to make all of them anew and "
            f"hand {folder.authority.name} to every site again"
        )


def _is_pair(key: Path, certificate: Path) -> bool:
    """Whether a certificate and its key are there and whole."""
    try:
        private = serialization.load_pem_private_key(key.read_bytes(), None)
        public = x509.load_pem_x509_certificate(certificate.read_bytes()).public_key()
    except (FileNotFoundError, ValueError, TypeError):
        return False
    return private.public_key() == public


def _make_authority(folder: ServerFolder) -> None:
    key = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedsparse federation authority")])
    certificate = (
        _certificate(name, key.public_key(), name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA384())
    )
    _write_key(folder.authority_key, key)
    write_atomically(folder.authority, certificate.public_bytes(serialization.Encoding.PEM))


def _make_certificate(
    folder: ServerFolder, host: str, alternatives: Sequence[x509.GeneralName]
) -> None:
    authority = x509.load_pem_x509_certificate(folder.authority.read_bytes())
    signer = serialization.load_pem_private_key(folder.authority_key.read_bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64])])
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    certificate = (
        _certificate(name, key.public_key(), authority.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(issuer_key, critical=False)
        .sign(signer, hashes.SHA384())
    )
    _write_key(folder.key, key)
    write_atomically(folder.certificate, certificate.public_bytes(serialization.Encoding.PEM))


def _certificate(
    subject: x509.Name, key: ec.EllipticCurvePublicKey, issuer: x509.Name
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError:
        raise OptionError(
            f'"{host}" is no host; name it in ASCII letters (an international name as xn--…), or '
            "give its address"
        ) from None


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    content = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    write_atomically(path, content, PRIVATE_FILE)
