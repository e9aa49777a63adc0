#include "engines/kubernetes/service/optional_watch.h"

#include <utility>

#include "base/check.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr Duration kLookPeriod = std::chrono::minutes(1);

}  // namespace

OptionalWatch::OptionalWatch(io::EventLoop& loop, Client& client, Resource resource,
                             std::string selector, Events events)
    : loop_(loop),
      client_(client),
      resource_(std::move(resource)),
      selector_(std::move(selector)),
      events_(std::move(events)) {
  Look();
}

OptionalWatch::~OptionalWatch() {
  if (timer_) loop_.Cancel(*timer_);
}

// Asks the API server, not its version.
void OptionalWatch::Look() {
  timer_.reset();
  if (connection_ != nullptr || stopped_) return;
  timer_ = loop_.After(kLookPeriod, [this] { Look(); });
  if (asks_) return;
  Result<Call> call = ListCall(resource_, "");
  CHECK(call.ok());
  call->target += "?limit=1";
  const auto sent = client_.Send(*std::move(call), [this](const Reply& reply) {
    asks_ = false;
    OnFound(reply);
  });
  asks_ = sent.ok();
}

void OptionalWatch::OnFound(const Reply& reply) {
  if (stopped_ || connection_ != nullptr) return;
  const Outcome outcome = reply.verdict.outcome;
  const bool served = reply.ok();
  if (!served && outcome != Outcome::kNotFound) events_.trouble(reply.verdict.status);
  // An account that may not read the resource does without it.
  const bool settled = served || outcome == Outcome::kNotFound || outcome == Outcome::kForbidden;
  if (served) {
    Client::WatchOptions options;
    options.resource = resource_;
    options.settings.selector = selector_;
    auto connection = client_.Watch(std::move(options), *this);
    CHECK(connection.ok()) << connection.status();
    connection_ = *std::move(connection);
  }
  looked_ = looked_ || settled;
  if (settled) events_.known();
}

void OptionalWatch::OnSynced() {
  synced_ = true;
  events_.known();
}

}  // namespace longhaul::engines::kubernetes
