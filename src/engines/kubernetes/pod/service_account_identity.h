// Who may call and join the controller of a LonghaulJob, by tokens of Kubernetes' service accounts.
//
// The API server signs a token for one pod and one audience, which is the job's. Accepted are
//   - as a REST caller: the operator's service account, with the role `view`;
//   - as the agent of node NAME: a pod of the job's namespace with the name NAME, which begins with
//     the prefix of the job's workers.
// Whoever may make pods in the namespace can make one that is accepted as an agent.
//
// The file of keys (token_keys.h) is read again when a token names an unknown key, at most once a
// second, and when the keys are a minute old: so a new key is accepted at once, and one that was
// removed no longer. If the file is then unreadable or damaged, the keys before it remain.
// Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/time.h"
#include "engines/kubernetes/pod/token_keys.h"
#include "service/security/external_identity.h"

namespace longhaul::engines::kubernetes {

struct ServiceAccountSettings {
  std::string keys_file;         // a JWK set
  std::string audience;          // "longhaul.dev/job/UID"
  std::string namespace_name;    // of the job and its pods
  std::string operator_subject;  // "system:serviceaccount:longhaul-system:longhaul-operator"
  std::string worker_prefix;     // "tune-worker-"
};

class ServiceAccountIdentity final : public service::ExternalIdentity {
 public:
  static constexpr Duration kLeastAge = std::chrono::seconds(1);
  static constexpr Duration kMostAge = std::chrono::minutes(1);

  // Reads the keys. kInvalidArgument if a setting is empty.
  static Result<std::unique_ptr<ServiceAccountIdentity>> Create(ServiceAccountSettings settings,
                                                                Instant now);

  Result<service::Identity> Caller(const std::string& token, Instant now) override;
  Status Node(const std::string& token, const std::string& node, Instant now) override;

 private:
  ServiceAccountIdentity(ServiceAccountSettings settings, TokenKeys keys, Instant now)
      : settings_(std::move(settings)), keys_(Share(std::move(keys))), tried_(now) {}
  using SharedKeys = std::shared_ptr<const TokenKeys>;  // a verification may outlast the reading
  static SharedKeys Share(TokenKeys keys) {
    return std::make_shared<const TokenKeys>(std::move(keys));
  }

  Result<TokenClaims> Verify(const std::string& token, Instant now);
  // Returns the present keys; those of the file if they are at least of this age.
  SharedKeys Keys(Duration age, Instant now);

  const ServiceAccountSettings settings_;
  std::mutex mutex_;  // guards all below
  SharedKeys keys_;
  Instant tried_;  // when the file was read, or could not be
};

}  // namespace longhaul::engines::kubernetes
