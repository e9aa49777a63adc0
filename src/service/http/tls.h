// TLS of a server's connections (OpenSSL), for sockets that don't block.
//
// TLS 1.2 and newer, without renegotiation and without sessions that are resumed. The handshake
// happens within the first calls of Receive, so the limits of a connection that has sent nothing
// apply to one that does not finish it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "io/fd.h"

typedef struct ssl_st SSL;
typedef struct ssl_ctx_st SSL_CTX;

namespace longhaul::service {

// A certificate and its key. Thread-safe.
class TlsServerContext {
 public:
  // `certificate`: PEM, the server's own first, then those of the authorities above it. Ignores
  // SIGPIPE in this process, because OpenSSL writes to sockets that the peer may have closed.
  static Result<std::unique_ptr<TlsServerContext>> Create(const std::string& certificate,
                                                          const std::string& key);
  ~TlsServerContext();
  TlsServerContext(const TlsServerContext&) = delete;
  TlsServerContext& operator=(const TlsServerContext&) = delete;

  SSL_CTX* get() const { return context_; }

 private:
  explicit TlsServerContext(SSL_CTX* context) : context_(context) {}
  SSL_CTX* const context_;
};

// TLS on one socket, which must outlive this.
class TlsSession {
 public:
  static Result<std::unique_ptr<TlsSession>> Create(const TlsServerContext& context,
                                                    const io::Fd& socket);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // As io::ReceiveSome and io::SendSome. A buffer of 16 KiB takes whole records, so nothing is kept
  // that the socket would not report as readable. Bytes that were not taken must be sent again from
  // the same place.
  Result<std::optional<size_t>> Receive(std::span<std::byte> buffer);
  Result<size_t> Send(std::span<const std::byte> bytes);
  // Whether Receive stopped because the socket takes no more bytes of the handshake.
  bool wants_write() const { return wants_write_; }

  // Reports the end to the peer, as far as that is possible without blocking.
  void Close();

 private:
  explicit TlsSession(SSL* session) : session_(session) {}
  SSL* const session_;
  bool wants_write_ = false;
};

}  // namespace longhaul::service
