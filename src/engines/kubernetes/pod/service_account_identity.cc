#include "engines/kubernetes/pod/service_account_identity.h"

#include "base/text.h"
#include "io/files/file.h"
#include "io/log/log.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr size_t kMostShownName = 260;  // of a pod or a subject, in a message

Result<TokenKeys> ReadKeys(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, io::ReadText(path, TokenKeys::kMostBytes));
  Result<TokenKeys> keys = TokenKeys::Parse(text);
  if (!keys.ok()) return keys.status().WithContext(path);
  return keys;
}

}  // namespace

Result<std::unique_ptr<ServiceAccountIdentity>> ServiceAccountIdentity::Create(
    ServiceAccountSettings settings, Instant now) {
  const std::pair<const char*, const std::string*> kNeeded[] = {
      {"audience", &settings.audience},
      {"namespace", &settings.namespace_name},
      {"subject of the operator", &settings.operator_subject},
      {"prefix of the workers' names", &settings.worker_prefix}};
  // An empty one would accept what has none.
  for (const auto& [name, value] : kNeeded) {
    if (value->empty()) {
      return InvalidArgument("the identity of service accounts needs the " + std::string(name));
    }
  }
  ASSIGN_OR_RETURN(TokenKeys keys, ReadKeys(settings.keys_file));
  return std::unique_ptr<ServiceAccountIdentity>(
      new ServiceAccountIdentity(std::move(settings), std::move(keys), now));
}

// A clock that was set back counts as any age.
ServiceAccountIdentity::SharedKeys ServiceAccountIdentity::Keys(Duration age, Instant now) {
  const std::lock_guard lock(mutex_);
  if (now >= tried_ && now - tried_ < age) return keys_;
  tried_ = now;
  Result<TokenKeys> read = ReadKeys(settings_.keys_file);
  if (read.ok()) {
    keys_ = Share(*std::move(read));
  } else {
    io::LogWarning("controller",
                   "cannot read the keys of the API server again; the ones before "
                   "remain: " +
                       read.status().message());
  }
  return keys_;
}

Result<TokenClaims> ServiceAccountIdentity::Verify(const std::string& token, Instant now) {
  Result<TokenClaims> claims = Keys(kMostAge, now)->Verify(token, settings_.audience, now);
  if (claims.status().code() == Code::kNotFound) {
    claims = Keys(kLeastAge, now)->Verify(token, settings_.audience, now);
  }
  if (claims.status().code() == Code::kNotFound) return Unauthenticated(claims.status().message());
  return claims;
}

Result<service::Identity> ServiceAccountIdentity::Caller(const std::string& token, Instant now) {
  ASSIGN_OR_RETURN(const TokenClaims claims, Verify(token, now));
  if (claims.subject == settings_.operator_subject) {
    return service::Identity{claims.subject, service::Role::kView};
  }
  return PermissionDenied("the token is of " + Printable(claims.subject, kMostShownName) +
                          ", expected " + settings_.operator_subject);
}

Status ServiceAccountIdentity::Node(const std::string& token, const std::string& node,
                                    Instant now) {
  ASSIGN_OR_RETURN(const TokenClaims claims, Verify(token, now));
  if (claims.namespace_name != settings_.namespace_name) {
    return PermissionDenied("the token is of the namespace '" +
                            Printable(claims.namespace_name, kMostShownName) + "', expected " +
                            settings_.namespace_name);
  }
  if (claims.pod_name != node) {
    return PermissionDenied("the token is of the pod '" +
                            Printable(claims.pod_name, kMostShownName) + "', not of " +
                            Printable(node, kMostShownName));
  }
  if (claims.pod_name.starts_with(settings_.worker_prefix)) return {};
  return PermissionDenied("the pod " + Printable(claims.pod_name, kMostShownName) +
                          " is no worker of this job: their names begin with " +
                          settings_.worker_prefix);
}

}  // namespace longhaul::engines::kubernetes
