#include "service/security/certificate.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <array>
#include <ctime>
#include <memory>
#include <optional>

#include "base/text.h"
#include "objects/signature.h"

namespace longhaul::service {
namespace {

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Bio = std::unique_ptr<BIO, Deleter<BIO_free_all>>;
using Key = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Deleter<X509_free>>;
using Request = std::unique_ptr<X509_REQ, Deleter<X509_REQ_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Deleter<X509_EXTENSION_free>>;
using Chain =
    std::unique_ptr<STACK_OF(X509),
                    decltype([](STACK_OF(X509) * all) { sk_X509_pop_free(all, X509_free); })>;
using Store = std::unique_ptr<X509_STORE, Deleter<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, Deleter<X509_STORE_CTX_free>>;

constexpr int kSerialBytes = 16;
constexpr int kVersion3 = 2;
constexpr std::string_view kGeneration = "generation ";  // in the organizational unit

// OpenSSL keeps a queue of errors for each thread. It is emptied, so that a later failure does not
// report this one.
Status OpenSslError(const std::string& what) {
  std::array<char, 256> reason{};
  ERR_error_string_n(ERR_get_error(), reason.data(), reason.size());
  ERR_clear_error();
  return InternalError(what + ": " + reason.data());
}

Bio ReadFrom(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// No password is asked for: a key that has one is not readable.
int NoPassword(char*, int, int, void*) { return 0; }

template <typename Write>
Result<std::string> ToText(const Write& write) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || write(bio.get()) != 1) return OpenSslError("cannot write PEM");
  char* data = nullptr;
  const auto bytes = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(bytes));
}

Result<std::string> ToText(X509* certificate) {
  return ToText([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}
Result<std::string> ToText(EVP_PKEY* key) {
  return ToText([&](BIO* bio) {
    return PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

Result<Certificate> ParseCertificate(const std::string& text) {
  Certificate parsed(PEM_read_bio_X509(ReadFrom(text).get(), nullptr, NoPassword, nullptr));
  ERR_clear_error();
  if (parsed != nullptr) return parsed;
  return InvalidArgument("it is no certificate in PEM (-----BEGIN CERTIFICATE-----)");
}

Result<Key> ParseKey(const std::string& text) {
  Key parsed(PEM_read_bio_PrivateKey(ReadFrom(text).get(), nullptr, NoPassword, nullptr));
  ERR_clear_error();
  if (parsed != nullptr) return parsed;
  return InvalidArgument("it is no private key in PEM without a password");
}

bool IsP256(EVP_PKEY* key) {
  std::array<char, 64> group{};
  return EVP_PKEY_get_base_id(key) == EVP_PKEY_EC &&
         EVP_PKEY_get_group_name(key, group.data(), group.size(), nullptr) == 1 &&
         std::string_view(group.data()) == SN_X9_62_prime256v1;
}

// X.509 times have whole seconds.
std::time_t SecondsOf(Instant at) {
  return static_cast<std::time_t>(
      std::chrono::duration_cast<std::chrono::seconds>(at.time_since_epoch()).count());
}

std::optional<Instant> InstantOf(const ASN1_TIME* at) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(at, &parts) != 1) return std::nullopt;
  return Instant(std::chrono::seconds(::timegm(&parts)));
}

bool Add(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool AddName(X509_NAME* target, const char* kind, const std::string& text) {
  return X509_NAME_add_entry_by_txt(target, kind, MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(text.data()),
                                    static_cast<int>(text.size()), -1, 0) == 1;
}

struct Subject {
  std::string common_name;
  std::string unit;  // empty: none
};

bool SetSubject(X509_NAME* target, const Subject& subject) {
  return AddName(target, "CN", subject.common_name) &&
         (subject.unit.empty() || AddName(target, "OU", subject.unit));
}

// A serial number must be positive. With 126 random bits, two certificates do not share one by
// chance.
bool SetSerial(X509* certificate) {
  std::array<unsigned char, kSerialBytes> bytes{};
  if (RAND_bytes(bytes.data(), kSerialBytes) != 1) return false;
  bytes[0] = static_cast<unsigned char>((bytes[0] & 0x7f) | 0x40);  // positive, of full length
  const std::unique_ptr<BIGNUM, Deleter<BN_free>> number(
      BN_bin2bn(bytes.data(), kSerialBytes, nullptr));
  return BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

using Extensions = std::span<const std::pair<int, std::string>>;

// Signs a certificate. Without an issuer it signs itself.
// `not before` lies kClockDifference in the past, because the clocks of nodes differ.
Result<std::string> Sign(EVP_PKEY* subject_key, const Subject& subject, X509* issuer,
                         EVP_PKEY* issuer_key, Extensions extensions, Instant now,
                         Duration validity) {
  const Certificate made(X509_new());
  X509* const raw = made.get();
  bool ok = raw != nullptr && X509_set_version(raw, kVersion3) == 1 && SetSerial(raw) &&
            ASN1_TIME_set(X509_getm_notBefore(raw), SecondsOf(now - kClockDifference)) != nullptr &&
            ASN1_TIME_set(X509_getm_notAfter(raw), SecondsOf(now + validity)) != nullptr &&
            X509_set_pubkey(raw, subject_key) == 1 &&
            SetSubject(X509_get_subject_name(raw), subject);
  X509* const signer = issuer == nullptr ? raw : issuer;
  ok = ok && X509_set_issuer_name(raw, X509_get_subject_name(signer)) == 1;
  for (const auto& [kind, value] : extensions) ok = ok && Add(raw, signer, kind, value);
  ok = ok && X509_sign(raw, issuer_key, EVP_sha256()) > 0;
  if (!ok) return OpenSslError("cannot make the certificate of " + Printable(subject.common_name));
  return ToText(raw);
}

Result<std::pair<Certificate, Key>> ParseBoth(const CertificateAndKey& both) {
  ASSIGN_OR_RETURN(Certificate certificate, ParseCertificate(both.certificate));
  ASSIGN_OR_RETURN(Key key, ParseKey(both.key));
  return std::pair(std::move(certificate), std::move(key));
}

bool IsAddress(const std::string& name) {
  std::array<unsigned char, 16> parsed{};
  return inet_pton(AF_INET, name.c_str(), parsed.data()) == 1 ||
         inet_pton(AF_INET6, name.c_str(), parsed.data()) == 1;
}

// Characters that the extension's syntax would read as something else are refused.
Result<std::string> AlternativeNames(std::span<const std::string> names) {
  std::vector<std::string> entries;
  for (const std::string& name : names) {
    const bool plain = !name.empty() && name.size() <= 253 &&
                       name.find_first_not_of(
                           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                           "0123456789.-:*") == std::string::npos;
    const bool address = IsAddress(name);
    if (!plain || (!address && name.find(':') != std::string::npos)) {
      return InvalidArgument("'" + Printable(name, 80) +
                             "' is no DNS name or address, such as controller.example or 10.0.0.1");
    }
    entries.push_back((address ? "IP:" : "DNS:") + name);
  }
  return Join(entries, ",");
}

// The strings of ASN.1 are not terminated, so each is taken with its length.
std::vector<std::string> NamesOf(X509* certificate) {
  std::vector<std::string> names;
  const std::unique_ptr<GENERAL_NAMES, Deleter<GENERAL_NAMES_free>> all(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; all != nullptr && i < sk_GENERAL_NAME_num(all.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(all.get(), i);
    if (name->type == GEN_DNS) {
      names.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                         static_cast<size_t>(ASN1_STRING_length(name->d.dNSName)));
    } else if (name->type == GEN_IPADD) {
      const int bytes = ASN1_STRING_length(name->d.iPAddress);
      std::array<char, INET6_ADDRSTRLEN> text{};
      if (inet_ntop(bytes == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(name->d.iPAddress),
                    text.data(), text.size()) != nullptr) {
        names.emplace_back(text.data());
      }
    }
  }
  return names;
}

std::string NameOf(X509* certificate, int kind) {
  X509_NAME* subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, kind, -1);
  if (at < 0) return "";
  const ASN1_STRING* text = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<size_t>(ASN1_STRING_length(text))};
}

std::string CommonNameOf(X509* certificate) { return NameOf(certificate, NID_commonName); }

// Certificates from before the first revocation have none.
Result<uint64_t> GenerationOf(X509* certificate) {
  const std::string unit = NameOf(certificate, NID_organizationalUnitName);
  if (!unit.starts_with(kGeneration)) return uint64_t{0};
  return ParseUint64(unit.substr(kGeneration.size()));
}

// Verifies a certificate with those between it and the authority.
// A store with this authority alone: the authorities that the system trusts must not be able to
// make agents or controllers. The time is an argument, as everywhere.
Status Verify(X509* certificate, STACK_OF(X509) * between, const std::string& authority,
              int purpose, Instant now) {
  ASSIGN_OR_RETURN(const Certificate root, ParseCertificate(authority));
  const Store store(X509_STORE_new());
  const StoreContext context(X509_STORE_CTX_new());
  if (store == nullptr || context == nullptr || X509_STORE_add_cert(store.get(), root.get()) != 1 ||
      X509_STORE_CTX_init(context.get(), store.get(), certificate, between) != 1) {
    return OpenSslError("cannot verify a certificate");
  }
  X509_STORE_CTX_set_purpose(context.get(), purpose);
  X509_STORE_CTX_set_time(context.get(), 0, SecondsOf(now));
  if (X509_verify_cert(context.get()) == 1) return {};
  const int error = X509_STORE_CTX_get_error(context.get());
  ERR_clear_error();
  return Unauthenticated(X509_verify_cert_error_string(error));
}

Result<Key> NewKey() {
  Key key(EVP_EC_gen(SN_X9_62_prime256v1));
  if (key == nullptr) return OpenSslError("cannot make a key");
  return key;
}

}  // namespace

Result<CertificateAndKey> MakeAuthority(const std::string& name, Instant now, Duration validity) {
  const std::array<std::pair<int, std::string>, 3> extensions = {{
      // pathlen:0: the authority signs nodes and servers, but no further authorities.
      {NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
      {NID_key_usage, "critical,keyCertSign"},
      {NID_subject_key_identifier, "hash"},
  }};
  ASSIGN_OR_RETURN(const Key key, NewKey());
  CertificateAndKey made;
  ASSIGN_OR_RETURN(made.certificate,
                   Sign(key.get(), {name, ""}, nullptr, key.get(), extensions, now, validity));
  ASSIGN_OR_RETURN(made.key, ToText(key.get()));
  return made;
}

Result<CertificateAndKey> MakeServerCertificate(const CertificateAndKey& authority,
                                                std::span<const std::string> names, Instant now,
                                                Duration validity) {
  ASSIGN_OR_RETURN(const std::string alternatives, AlternativeNames(names));
  const std::array<std::pair<int, std::string>, 6> extensions = {{
      {NID_basic_constraints, "critical,CA:FALSE"},
      {NID_key_usage, "critical,digitalSignature"},
      {NID_ext_key_usage, "serverAuth"},
      {NID_subject_key_identifier, "hash"},
      {NID_authority_key_identifier, "keyid"},
      {NID_subject_alt_name, alternatives},
  }};
  ASSIGN_OR_RETURN(const auto issuer, ParseBoth(authority));
  ASSIGN_OR_RETURN(const Key key, NewKey());
  CertificateAndKey made;
  ASSIGN_OR_RETURN(made.certificate,
                   Sign(key.get(), {"longhaul controller", ""}, issuer.first.get(),
                        issuer.second.get(), extensions, now, validity));
  ASSIGN_OR_RETURN(made.key, ToText(key.get()));
  return made;
}

Result<std::string> MakeKey() {
  ASSIGN_OR_RETURN(const Key key, NewKey());
  return ToText(key.get());
}

Result<std::string> MakeRequest(const std::string& key) {
  ASSIGN_OR_RETURN(const Key parsed, ParseKey(key));
  const Request request(X509_REQ_new());
  if (request == nullptr || X509_REQ_set_pubkey(request.get(), parsed.get()) != 1 ||
      X509_REQ_sign(request.get(), parsed.get(), EVP_sha256()) <= 0) {
    return OpenSslError("cannot make a certificate request");
  }
  return ToText([&](BIO* bio) { return PEM_write_bio_X509_REQ(bio, request.get()); });
}

// Only the public key is taken from the request. Name, validity and use are the controller's
// decision, so a node cannot request another name or a server's certificate. The signature of the
// request proves that the node has the private key.
Result<std::string> SignRequest(const CertificateAndKey& authority, const std::string& request,
                                const std::string& node, Instant now, Duration validity,
                                uint64_t generation) {
  const Request parsed(
      PEM_read_bio_X509_REQ(ReadFrom(request).get(), nullptr, NoPassword, nullptr));
  EVP_PKEY* const key = parsed == nullptr ? nullptr : X509_REQ_get0_pubkey(parsed.get());
  const bool valid = key != nullptr && IsP256(key) && X509_REQ_verify(parsed.get(), key) == 1;
  ERR_clear_error();
  if (!valid) {
    return InvalidArgument(
        "the certificate request is damaged, not signed by its key, or of a key other than P-256");
  }
  const std::array<std::pair<int, std::string>, 5> extensions = {{
      {NID_basic_constraints, "critical,CA:FALSE"},
      {NID_key_usage, "critical,digitalSignature"},
      {NID_ext_key_usage, "clientAuth"},
      {NID_subject_key_identifier, "hash"},
      {NID_authority_key_identifier, "keyid"},
  }};
  ASSIGN_OR_RETURN(const auto issuer, ParseBoth(authority));
  const std::string unit =
      generation == 0 ? "" : std::string(kGeneration) + std::to_string(generation);
  return Sign(key, {node, unit}, issuer.first.get(), issuer.second.get(), extensions, now,
              validity);
}

Result<CertificateFacts> ReadCertificate(const std::string& certificate) {
  ASSIGN_OR_RETURN(const Certificate parsed, ParseCertificate(certificate));
  const auto from = InstantOf(X509_get0_notBefore(parsed.get()));
  const auto until = InstantOf(X509_get0_notAfter(parsed.get()));
  if (!from || !until) return InvalidArgument("the certificate has no valid dates");
  ASSIGN_OR_RETURN(const uint64_t generation, GenerationOf(parsed.get()));
  return CertificateFacts{CommonNameOf(parsed.get()), NamesOf(parsed.get()), *from, *until,
                          generation};
}

Result<std::string> VerifyClient(const std::string& certificate, const std::string& authority,
                                 Instant now) {
  ASSIGN_OR_RETURN(const Certificate client, ParseCertificate(certificate));
  const std::string node = CommonNameOf(client.get());
  const Status verified = Verify(client.get(), nullptr, authority, X509_PURPOSE_SSL_CLIENT, now);
  if (verified.ok()) return node;
  return Unauthenticated("the certificate of node " + Printable(node, 70) +
                         " is refused: " + verified.message() +
                         "; join again with a new token (longhaul token create-join)");
}

Status VerifyServer(const std::string& certificates, const std::string& authority, Instant now) {
  const Bio bio = ReadFrom(certificates);
  const Certificate server(PEM_read_bio_X509(bio.get(), nullptr, NoPassword, nullptr));
  if (server == nullptr) return ParseCertificate(certificates).status();
  // The file may contain the chain above the server's certificate, the lowest one first.
  const Chain above(sk_X509_new_null());
  while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, NoPassword, nullptr)) {
    sk_X509_push(above.get(), next);
  }
  ERR_clear_error();  // the end of the text is one
  return Verify(server.get(), above.get(), authority, X509_PURPOSE_SSL_SERVER, now);
}

Status CheckKey(const std::string& certificate, const std::string& key) {
  ASSIGN_OR_RETURN(const Certificate parsed, ParseCertificate(certificate));
  ASSIGN_OR_RETURN(const Key parsed_key, ParseKey(key));
  const bool same = X509_check_private_key(parsed.get(), parsed_key.get()) == 1;
  ERR_clear_error();
  return same ? Status() : InvalidArgument("the key is not the one of the certificate");
}

// Addresses and names are different kinds of entries in a certificate and have different rules,
// such as wildcards.
bool IsForHost(const std::string& certificate, const std::string& host) {
  const Result<Certificate> parsed = ParseCertificate(certificate);
  if (!parsed.ok()) return false;
  if (IsAddress(host)) return X509_check_ip_asc(parsed->get(), host.c_str(), 0) == 1;
  return X509_check_host(parsed->get(), host.data(), host.size(), 0, nullptr) == 1;
}

// Of the encoded form (DER), so that line ends or comments in the PEM file do not matter.
Result<std::string> Fingerprint(const std::string& certificate) {
  ASSIGN_OR_RETURN(const Certificate parsed, ParseCertificate(certificate));
  unsigned char* bytes = nullptr;
  const int size = i2d_X509(parsed.get(), &bytes);
  if (size < 0) return OpenSslError("cannot encode a certificate");
  const std::unique_ptr<unsigned char, decltype([](unsigned char* raw) { OPENSSL_free(raw); })>
      owner(bytes);
  return objects::Sha256Hex(std::as_bytes(std::span(bytes, static_cast<size_t>(size))));
}

}  // namespace longhaul::service
