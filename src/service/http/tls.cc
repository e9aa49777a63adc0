#include "service/http/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <array>
#include <csignal>

namespace longhaul::service {
namespace {

Status TlsError(const char* what) {
  std::array<char, 256> reason{};
  ERR_error_string_n(ERR_get_error(), reason.data(), reason.size());
  ERR_clear_error();
  return InvalidArgument(std::string(what) + ": " + reason.data());
}

struct FreeServedText {
  void operator()(BIO* bio) const { BIO_free_all(bio); }
};
using ServedText = std::unique_ptr<BIO, FreeServedText>;

ServedText OpenServedText(const std::string& text) {
  return ServedText(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// OpenSSL would otherwise read a password from the terminal.
int EmptyPassword(char*, int, int, void*) { return 0; }

// Uses the first certificate and sends the ones after it along.
bool UseCertificates(SSL_CTX* context, const std::string& text) {
  const ServedText bio = OpenServedText(text);
  X509* own = PEM_read_bio_X509(bio.get(), nullptr, EmptyPassword, nullptr);
  if (own == nullptr) return false;
  const bool used = SSL_CTX_use_certificate(context, own) == 1;
  X509_free(own);
  if (!used) return false;
  while (X509* above = PEM_read_bio_X509(bio.get(), nullptr, EmptyPassword, nullptr)) {
    if (SSL_CTX_add0_chain_cert(context, above) != 1) {
      X509_free(above);
      return false;
    }
  }
  ERR_clear_error();  // the end of the text is one
  return true;
}

bool UseKey(SSL_CTX* context, const std::string& text) {
  EVP_PKEY* key =
      PEM_read_bio_PrivateKey(OpenServedText(text).get(), nullptr, EmptyPassword, nullptr);
  if (key == nullptr) return false;
  const bool used = SSL_CTX_use_PrivateKey(context, key) == 1;
  EVP_PKEY_free(key);
  return used;
}

}  // namespace

Result<std::unique_ptr<TlsServerContext>> TlsServerContext::Create(const std::string& certificate,
                                                                   const std::string& key) {
  std::signal(SIGPIPE, SIG_IGN);
  std::unique_ptr<TlsServerContext> made(new TlsServerContext(SSL_CTX_new(TLS_server_method())));
  SSL_CTX* const context = made->get();
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1) {
    return TlsError("TLS is not available");
  }
  // Renegotiation and compression have had attacks, and both are unused. Without tickets and a
  // cache no session state outlives its connection.
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  // Partial writes and a moving buffer fit a socket that does not block: the rest is sent later,
  // possibly from another address. Released buffers keep idle connections small.
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  if (!UseCertificates(context, certificate)) return TlsError("the certificate is not usable");
  if (!UseKey(context, key)) return TlsError("the key is not usable");
  return made;
}

TlsServerContext::~TlsServerContext() { SSL_CTX_free(context_); }

Result<std::unique_ptr<TlsSession>> TlsSession::Create(const TlsServerContext& context,
                                                       const io::Fd& socket) {
  std::unique_ptr<TlsSession> made(new TlsSession(SSL_new(context.get())));
  if (made->session_ == nullptr || SSL_set_fd(made->session_, socket.get()) != 1) {
    return TlsError("cannot begin TLS");
  }
  SSL_set_accept_state(made->session_);
  return made;
}

TlsSession::~TlsSession() { SSL_free(session_); }

// The queue of errors belongs to the thread, and SSL_get_error reads it, so it is emptied before
// each call.
Result<std::optional<size_t>> TlsSession::Receive(std::span<std::byte> buffer) {
  ERR_clear_error();
  wants_write_ = false;
  size_t bytes = 0;
  const int result = SSL_read_ex(session_, buffer.data(), buffer.size(), &bytes);
  if (result == 1) return std::optional(bytes);
  switch (SSL_get_error(session_, result)) {
    case SSL_ERROR_WANT_WRITE:
      wants_write_ = true;
      return std::optional<size_t>();
    case SSL_ERROR_WANT_READ:
      return std::optional<size_t>();
    case SSL_ERROR_ZERO_RETURN:
      return std::optional<size_t>(0);
    default:
      ERR_clear_error();
      return Unavailable("the client broke TLS off");
  }
}

Result<size_t> TlsSession::Send(std::span<const std::byte> bytes) {
  ERR_clear_error();
  size_t sent = 0;
  const int result = SSL_write_ex(session_, bytes.data(), bytes.size(), &sent);
  if (result == 1) return sent;
  const int error = SSL_get_error(session_, result);
  if (error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_WANT_READ) return size_t{0};
  ERR_clear_error();
  return Unavailable("the client broke TLS off");
}

// Before the handshake is complete there is nothing to close, and SSL_shutdown would be an error.
void TlsSession::Close() {
  if (SSL_is_init_finished(session_) != 0) (void)SSL_shutdown(session_);
  ERR_clear_error();
}

}  // namespace longhaul::service
