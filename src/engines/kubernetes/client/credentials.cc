#include "engines/kubernetes/client/credentials.h"

#include <optional>
#include <utility>

#include "base/text.h"
#include "io/clock.h"
#include "io/files/file.h"
#include "io/process/process.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr uint64_t kMaxFileBytes = 1 << 20;
constexpr uint64_t kMaxTokenBytes = 64 << 10;

class Fixed final : public CredentialSource {
 public:
  explicit Fixed(Credential credential)
      : credential_(std::make_shared<const Credential>(std::move(credential))) {}
  void Get(Done done) override { done(credential_); }
  void Refused(const Shared&) override {}

 private:
  const Shared credential_;
};

class TokenFile final : public CredentialSource {
 public:
  TokenFile(std::string path, Duration age) : path_(std::move(path)), age_(age) {}

  void Get(Done done) override {
    const Instant now = io::MonotonicNow();
    if (credential_ && now - read_at_ < age_) return done(credential_);
    Result<Shared> read = Read();
    // A file that cannot be read now is read again with the next request.
    if (read.ok()) {
      credential_ = *read;
      read_at_ = now;
    }
    done(std::move(read));
  }

  void Refused(const Shared& used) override {
    if (used == credential_) credential_.reset();
  }

 private:
  Result<Shared> Read() const {
    ASSIGN_OR_RETURN(const std::string text, io::ReadText(path_, kMaxTokenBytes));
    const std::string_view token = Trim(text);
    if (token.empty() || token.find_first_of("\r\n ") != token.npos) {
      return InvalidArgument(path_ + " has no token, expected one line with a bearer token");
    }
    Credential credential;
    credential.token = token;
    return std::make_shared<const Credential>(std::move(credential));
  }

  const std::string path_;
  const Duration age_;
  Shared credential_;
  Instant read_at_;
};

// Replaces a path by the file's text.
Result<std::string> ReadPem(const PemSource& source) {
  if (source.path.empty()) return source.text;
  return io::ReadText(source.path, kMaxFileBytes);
}

Result<std::unique_ptr<CredentialSource>> SourceOf(io::EventLoop& loop, const Kubeconfig& config,
                                                   const std::string& authority) {
  if (config.exec) {
    ExecSettings settings;
    settings.plugin = *config.exec;
    settings.exec_info = ExecInfo(config, authority);
    settings.environment = io::CurrentEnvironment();
    return ExecCredentials(loop, std::move(settings));
  }
  if (!config.token_file.empty()) return TokenFileCredentials(config.token_file);
  Credential credential;
  credential.token = config.token;
  ASSIGN_OR_RETURN(credential.client_certificate, ReadPem(config.client_certificate));
  ASSIGN_OR_RETURN(credential.client_key, ReadPem(config.client_key));
  return FixedCredentials(std::move(credential));
}

}  // namespace

std::unique_ptr<CredentialSource> FixedCredentials(Credential credential) {
  return std::make_unique<Fixed>(std::move(credential));
}

std::unique_ptr<CredentialSource> TokenFileCredentials(std::string path, Duration age) {
  return std::make_unique<TokenFile>(std::move(path), age);
}

Result<Access> InClusterAccess(const std::map<std::string, std::string>& environment,
                               const std::string& folder) {
  const auto host = environment.find("KUBERNETES_SERVICE_HOST");
  const auto port = environment.find("KUBERNETES_SERVICE_PORT");
  if (host == environment.end() || port == environment.end() || host->second.empty()) {
    return FailedPrecondition(
        "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is no pod, name a "
        "kubeconfig file instead");
  }
  Access access;
  // A variable has the bare address, a URL has it in brackets.
  const bool version6 = host->second.find(':') != std::string::npos;
  access.http.server =
      "https://" + (version6 ? "[" + host->second + "]" : host->second) + ":" + port->second;
  ASSIGN_OR_RETURN(access.http.certificate_authority,
                   io::ReadText(folder + "/ca.crt", kMaxFileBytes));
  ASSIGN_OR_RETURN(const std::string name, io::ReadText(folder + "/namespace", kMaxTokenBytes));
  access.namespace_name = Trim(name);
  access.credentials = TokenFileCredentials(folder + "/token");
  return access;
}

Result<Access> KubeconfigAccess(io::EventLoop& loop, const std::string& path,
                                const std::string& context) {
  ASSIGN_OR_RETURN(const std::string text, io::ReadText(path, kMaxFileBytes));
  ASSIGN_OR_RETURN(const Kubeconfig config, ParseKubeconfig(text, path, context));
  Access access;
  access.namespace_name = config.namespace_name;
  access.http.server = config.server;
  access.http.tls_server_name = config.tls_server_name;
  access.http.skip_tls_verification = config.skip_tls_verification;
  access.http.proxy_url = config.proxy_url;
  ASSIGN_OR_RETURN(access.http.certificate_authority, ReadPem(config.certificate_authority));
  ASSIGN_OR_RETURN(access.credentials, SourceOf(loop, config, access.http.certificate_authority));
  return access;
}

}  // namespace longhaul::engines::kubernetes
