#include "service/agent/identity/pinned_authority.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <csignal>
#include <memory>

#include "base/text.h"
#include "service/security/certificate.h"

namespace longhaul::service {
namespace {

constexpr timeval kSocketLimit = {10, 0};
// "h2", preceded by its length: gRPC ends connections that do not offer it.
constexpr unsigned char kHttp2[] = {2, 'h', '2'};

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free_all(bio); }
};
using Bio = std::unique_ptr<BIO, FreeBio>;
using Context = std::unique_ptr<SSL_CTX, decltype([](SSL_CTX* raw) { SSL_CTX_free(raw); })>;
using Session = std::unique_ptr<SSL, decltype([](SSL* raw) { SSL_free(raw); })>;

Result<std::string> ToText(X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || PEM_write_bio_X509(bio.get(), certificate) != 1) {
    return InternalError("cannot write a certificate");
  }
  char* data = nullptr;
  const auto bytes = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(bytes));
}

// A connected socket whose reads and writes end after kSocketLimit.
Bio Connect(const std::string& address) {
  Bio bio(BIO_new_connect(address.c_str()));
  if (bio == nullptr || BIO_do_connect(bio.get()) != 1) return nullptr;
  const int fd = static_cast<int>(BIO_get_fd(bio.get(), nullptr));
  for (const int limit : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    if (setsockopt(fd, SOL_SOCKET, limit, &kSocketLimit, sizeof kSocketLimit) != 0) return nullptr;
  }
  return bio;
}

Status NoAnswer(const std::string& address) {
  ERR_clear_error();
  return Unavailable("no TLS answer from the controller at " + Printable(address) +
                     ": is it running, and has it certificates (longhaul controller init)?");
}

}  // namespace

Result<std::string> FetchAuthority(const std::string& address, const std::string& fingerprint) {
  std::signal(SIGPIPE, SIG_IGN);
  const Context context(SSL_CTX_new(TLS_client_method()));
  const Session session(context == nullptr ? nullptr : SSL_new(context.get()));
  if (session == nullptr) return InternalError("TLS is not available");
  // The fingerprint below takes the place of the verification.
  SSL_set_verify(session.get(), SSL_VERIFY_NONE, nullptr);
  (void)SSL_set_alpn_protos(session.get(), kHttp2, sizeof kHttp2);
  Bio bio = Connect(address);
  if (bio == nullptr) return NoAnswer(address);
  BIO* const raw = bio.release();
  SSL_set_bio(session.get(), raw, raw);  // owns it
  if (SSL_connect(session.get()) != 1) return NoAnswer(address);
  STACK_OF(X509)* const sent = SSL_get_peer_cert_chain(session.get());
  for (int i = 0; sent != nullptr && i < sk_X509_num(sent); ++i) {
    ASSIGN_OR_RETURN(const std::string certificate, ToText(sk_X509_value(sent, i)));
    ASSIGN_OR_RETURN(const std::string own, Fingerprint(certificate));
    if (own == fingerprint) return certificate;
  }
  return Unauthenticated("the server at " + Printable(address) +
                         " is not the controller that made the join token: its authority has "
                         "another fingerprint");
}

}  // namespace longhaul::service
