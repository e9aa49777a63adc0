// Renews an agent's certificate in time, on a thread of its own.
//
// It looks every few minutes whether the renewal is due (agent_identity.h) and tries again after a
// failure. The next connection to the controller uses the new certificate: the controller ends the
// present one when its certificate expires.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace longhaul::service {

class IdentityRenewal {
 public:
  IdentityRenewal(std::vector<std::string> controllers, std::string node, std::string directory);
  ~IdentityRenewal();
  IdentityRenewal(const IdentityRenewal&) = delete;
  IdentityRenewal& operator=(const IdentityRenewal&) = delete;

 private:
  void Run();
  void RenewIfDue();

  const std::vector<std::string> controllers_;
  const std::string node_;
  const std::string directory_;
  std::mutex mutex_;  // guards stopping_
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace longhaul::service
