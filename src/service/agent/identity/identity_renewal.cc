#include "service/agent/identity/identity_renewal.h"

#include <utility>

#include "io/clock.h"
#include "io/log/log.h"
#include "service/agent/identity/agent_identity.h"

namespace longhaul::service {
namespace {

constexpr auto kRenewalPeriod = std::chrono::minutes(5);

}  // namespace

IdentityRenewal::IdentityRenewal(std::vector<std::string> controllers, std::string node,
                                 std::string directory)
    : controllers_(std::move(controllers)),
      node_(std::move(node)),
      directory_(std::move(directory)),
      thread_([this] { Run(); }) {}

IdentityRenewal::~IdentityRenewal() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void IdentityRenewal::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    RenewIfDue();
    lock.lock();
    changed_.wait_for(lock, kRenewalPeriod, [this] { return stopping_; });
  }
}

void IdentityRenewal::RenewIfDue() {
  const std::string component = "agent." + node_;
  const auto identity = ReadIdentity(directory_);
  const auto due = identity.ok() ? RenewalIsDue(identity->certificate, io::Now())
                                 : Result<bool>(identity.status());
  Status status = due.status();
  if (due.ok() && *due) {
    for (const std::string& controller : controllers_) {  // any that leads can do it
      status = RenewIdentity(controller, node_, directory_);
      if (status.ok()) break;
    }
    if (status.ok()) io::LogInfo(component, "the certificate is renewed");
  }
  if (!status.ok()) {
    io::LogWarning(component, "cannot renew the certificate; trying again: " + status.message());
  }
}

}  // namespace longhaul::service
