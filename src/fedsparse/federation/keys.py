"""A private authority, the server's certificate and a key pair for each site.

The authority signs the server's certificate, and sites trust no other. Sites prove who they are
with keys of their own, as Flower's SuperNodes do.
"""

import datetime
import ipaddress
import os
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedsparse.errors import OptionError
from fedsparse.federation.folder import (
    AUTHORITY,
    SITE_KEY_SUFFIX,
    ServerFolder,
    check_site_name,
)
from fedsparse.files import ready_folder, write_atomically

VALID_DAYS = 825
"""Longest that common software accepts for a server's certificate."""

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SECRET = 0o600
_CLOCK_SKEW = datetime.timedelta(hours=1)


def make_keys(folder: ServerFolder, hosts: Sequence[str], sites: Sequence[str]) -> list[str]:
    """Write what is not there yet; keys that exist are never replaced.

    Parameters
    ----------
    folder
        Where.
    hosts
        Names or addresses by which sites reach the server, for a new certificate.
    sites
        Names of sites that need a key.

    Returns
    -------
    list
        The sites that got a new key.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = ServerFolder(Path(tempfile.mkdtemp()) / "federation")
    >>> make_keys(folder, ["server.example.org"], ["bari", "cork"])
    ['bari', 'cork']
    >>> make_keys(folder, [], ["cork", "delft"])
    ['delft']
    """
    for site in sites:
        check_site_name(site)
    ready_folder(folder.root)
    if not folder.authority.exists():
        if not hosts:
            raise OptionError("name the host by which sites reach the server with --host")
        _make_authority(folder)
        _make_certificate(folder, hosts)
    elif hosts:
        raise OptionError(
            f"{folder.certificate} exists and keeps its hosts; leave --host out to add sites, or "
            "choose another folder"
        )
    new = [site for site in dict.fromkeys(sites) if not folder.package_of(site).exists()]
    for site in new:
        _make_site(folder, site)
    return new


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


def _make_certificate(folder: ServerFolder, hosts: Sequence[str]) -> None:
    authority = x509.load_pem_x509_certificate(folder.authority.read_bytes())
    signer = serialization.load_pem_private_key(folder.authority_key.read_bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
    known_as = x509.SubjectAlternativeName(
        [_alternative(host) for host in dict.fromkeys([*hosts, *_LOOPBACK])]
    )
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    certificate = (
        _certificate(name, key.public_key(), authority.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(known_as, critical=False)
        .add_extension(issuer_key, critical=False)
        .sign(signer, hashes.SHA384())
    )
    _write_key(folder.key, key)
    write_atomically(folder.certificate, certificate.public_bytes(serialization.Encoding.PEM))


def _make_site(folder: ServerFolder, site: str) -> None:
    # The public key goes along with every request: this curve's is a third shorter.
    key = ec.generate_private_key(ec.SECP256R1())
    package = folder.package_of(site)
    ready_folder(package)
    ready_folder(folder.public_keys)
    write_atomically(package / AUTHORITY, folder.authority.read_bytes())
    _write_key(package / f"{site}{SITE_KEY_SUFFIX}", key, serialization.PrivateFormat.OpenSSH)
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    write_atomically(folder.public_keys / f"{site}.pub", public + b"\n")


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
        return x509.DNSName(host)


def _write_key(
    path: "os.PathLike[str]",
    key: ec.EllipticCurvePrivateKey,
    form: serialization.PrivateFormat = serialization.PrivateFormat.PKCS8,
) -> None:
    """Write a key that nobody else may read, not even for the blink before it is complete."""
    content = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _SECRET), "wb") as file:
        file.write(content)
