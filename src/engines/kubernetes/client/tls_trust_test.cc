#include "engines/kubernetes/client/tls_trust.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "engines/kubernetes/client/http_client.h"
#include "io/clock.h"
#include "io/event_loop.h"
#include "service/security/certificate.h"

namespace longhaul::engines::kubernetes {
namespace {

service::CertificateAndKey Authority() {
  return *service::MakeAuthority("test", io::Now(), std::chrono::hours(1));
}

// A server with TLS that keeps its connections until the client closes them.
class TlsServer {
 public:
  explicit TlsServer(const service::CertificateAndKey& own)
      : context_(SSL_CTX_new(TLS_server_method())), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    BIO* const certificate = BIO_new_mem_buf(own.certificate.data(), -1);
    BIO* const key = BIO_new_mem_buf(own.key.data(), -1);
    X509* const parsed = PEM_read_bio_X509(certificate, nullptr, nullptr, nullptr);
    EVP_PKEY* const parsed_key = PEM_read_bio_PrivateKey(key, nullptr, nullptr, nullptr);
    EXPECT_EQ(SSL_CTX_use_certificate(context_, parsed), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey(context_, parsed_key), 1);
    X509_free(parsed);
    EVP_PKEY_free(parsed_key);
    BIO_free(certificate);
    BIO_free(key);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, SOMAXCONN), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    address_ = "https://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    acceptor_ = std::thread([this] { Accept(); });
  }
  // Requires that the client has closed its connections.
  ~TlsServer() {
    ::shutdown(listener_, SHUT_RDWR);
    AwaitRequests(0);
    acceptor_.join();
    for (std::thread& connection : connections_) connection.join();
    ::close(listener_);
    SSL_CTX_free(context_);
  }

  const std::string& address() const { return address_; }
  // Answers no request until there have been so many.
  void AwaitRequests(int count) {
    const std::lock_guard lock(mutex_);
    awaited_ = count;
    changed_.notify_all();
  }
  // Whether each connection has resumed a session, in their order.
  std::vector<bool> resumed() {
    const std::lock_guard lock(mutex_);
    return resumed_;
  }

 private:
  void Accept() {
    for (;;) {
      const int socket = ::accept(listener_, nullptr, nullptr);
      if (socket < 0) return;
      connections_.emplace_back([this, socket] { Serve(socket); });
    }
  }
  void Serve(int socket) {
    SSL* const tls = SSL_new(context_);
    SSL_set_fd(tls, socket);
    if (SSL_accept(tls) == 1) {
      {
        const std::lock_guard lock(mutex_);
        resumed_.push_back(SSL_session_reused(tls) == 1);
      }
      char request[4096];
      constexpr std::string_view kAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
      while (SSL_read(tls, request, sizeof(request)) > 0) {
        AwaitOthers();
        SSL_write(tls, kAnswer.data(), static_cast<int>(kAnswer.size()));
      }
    }
    SSL_free(tls);
    ::close(socket);
  }

  void AwaitOthers() {
    std::unique_lock lock(mutex_);
    ++requests_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return requests_ >= awaited_; });
  }

  SSL_CTX* const context_;
  const int listener_;
  std::string address_;
  std::mutex mutex_;  // guards the numbers and resumed_
  std::condition_variable changed_;
  int requests_ = 0;
  int awaited_ = 0;
  std::vector<bool> resumed_;
  std::vector<std::thread> connections_;  // of the acceptor until it has ended
  std::thread acceptor_;
};

service::CertificateAndKey ServerCertificate(const service::CertificateAndKey& authority) {
  const std::string names[] = {"127.0.0.1"};
  return *service::MakeServerCertificate(authority, names, io::Now(), std::chrono::hours(1));
}

class TlsTrustTest : public ::testing::Test {
 protected:
  // Begins to use a server, trusting these authorities: texts in PEM.
  Status Use(const std::string& address, const std::string& authorities) {
    HttpSettings settings;
    settings.server = address;
    settings.certificate_authority = authorities;
    ASSIGN_OR_RETURN(client_, HttpClient::Create(*loop_, settings));
    return {};
  }
  // The answers to `count` requests that are under way at the same time.
  std::vector<Result<HttpResponse>> GetAll(size_t count,
                                           std::shared_ptr<const Credential> credential = nullptr) {
    std::vector<Result<HttpResponse>> got;
    for (size_t i = 0; i < count; ++i) {
      HttpRequest request;
      request.method = "GET";
      request.target = "/version";
      request.credential = credential;
      client_->Send(std::move(request),
                    [&got](Result<HttpResponse> answer) { got.push_back(std::move(answer)); });
    }
    while (got.size() < count) loop_->RunOnce(std::chrono::milliseconds(50));
    return got;
  }

  const service::CertificateAndKey authority_ = Authority();
  TlsServer server_{ServerCertificate(authority_)};
  const std::unique_ptr<io::EventLoop> loop_ = *io::EventLoop::Create();
  std::unique_ptr<HttpClient> client_;
};

TEST_F(TlsTrustTest, AFurtherConnectionResumesTheSession) {
  ASSERT_TRUE(Use(server_.address(), authority_.certificate).ok());
  ASSERT_TRUE(GetAll(1)[0].ok());
  // Of two requests at once, one has the connection that is kept, and the other opens one.
  server_.AwaitRequests(3);
  for (const Result<HttpResponse>& answer : GetAll(2)) {
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->body, "{}");
  }
  EXPECT_EQ(server_.resumed(), (std::vector<bool>{false, true}));
}

// The server takes the identity of the client's certificate from the session.
TEST_F(TlsTrustTest, AnotherClientCertificateResumesNoSession) {
  ASSERT_TRUE(Use(server_.address(), authority_.certificate).ok());
  const service::CertificateAndKey first = Authority();
  const service::CertificateAndKey second = Authority();
  for (const service::CertificateAndKey* own : {&first, &second}) {
    const Result<HttpResponse> answer = GetAll(
        1, std::make_shared<const Credential>(Credential{"", own->certificate, own->key, {}}))[0];
    ASSERT_TRUE(answer.ok()) << answer.status();
  }
  EXPECT_EQ(server_.resumed(), (std::vector<bool>{false, false}));
}

TEST_F(TlsTrustTest, RefusesAServerOfAnotherAuthority) {
  ASSERT_TRUE(Use(server_.address(), Authority().certificate).ok());
  EXPECT_EQ(GetAll(1)[0].status().code(), Code::kFailedPrecondition);
}

TEST_F(TlsTrustTest, RefusesATextWithoutACertificate) {
  const Status refused = Use(server_.address(), "no certificate");
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(refused.message().find("certificate-authority"), std::string::npos) << refused;
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
