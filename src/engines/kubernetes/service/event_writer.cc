#include "engines/kubernetes/service/event_writer.h"

#include <utility>

#include "engines/kubernetes/scheduling/pod_calls.h"
#include "io/clock.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr Duration kReportPeriod = std::chrono::minutes(1);

}  // namespace

EventWriter::EventWriter(io::EventLoop& loop, Client& client,
                         std::function<void(const RecordPodEvent&)> lost,
                         std::function<void(const std::string&)> log)
    : loop_(loop),
      client_(client),
      lost_(std::move(lost)),
      log_(std::move(log)),
      whole_queue_(client.room(TrafficClass::kEvent)) {}

EventWriter::~EventWriter() {
  if (timer_) loop_.Cancel(*timer_);
}

void EventWriter::Write(const RecordPodEvent& event) {
  // A burst of binds leaves half of the queue to the events that explain why something waits or
  // has ended.
  const bool bound = event.reason == RecordPodEvent::Reason::kScheduled;
  const size_t kept = bound ? whole_queue_ / 2 : 0;
  if (client_.room(TrafficClass::kEvent) <= kept) {
    ++counts_.dropped;
    return Lose(event);
  }
  Result<Call> call = CallFor(event, ToString(io::Now()));
  if (!call.ok()) {
    ++counts_.failed;
    refusal_ = call.status().message();
    return Lose(event);
  }
  const auto sent =
      client_.Send(*std::move(call), [this, event](const Reply& reply) { OnReply(event, reply); });
  if (sent.ok()) return;
  ++counts_.dropped;
  Lose(event);
}

void EventWriter::OnReply(const RecordPodEvent& event, const Reply& reply) {
  // One that exists was written by a call whose answer was lost, or by an earlier leader.
  if (reply.ok() || reply.verdict.outcome == Outcome::kAlreadyExists) {
    ++counts_.written;
    return;
  }
  // A namespace that ends accepts nothing, and an event expires: neither is trouble.
  if (reply.verdict.outcome != Outcome::kNotFound) {
    ++counts_.failed;
    refusal_ = reply.verdict.status.message();
  }
  Lose(event);
}

void EventWriter::Lose(const RecordPodEvent& event) {
  lost_(event);
  if (!timer_ && (counts_.dropped > reported_.dropped || counts_.failed > reported_.failed)) {
    Report();
  }
}

// The first line comes at once, and the others with all that has happened in a minute.
void EventWriter::Report() {
  timer_.reset();
  const uint64_t dropped = counts_.dropped - reported_.dropped;
  const uint64_t failed = counts_.failed - reported_.failed;
  if (dropped == 0 && failed == 0) return;
  reported_ = counts_;
  std::string line = "events of pods that were not written: " + std::to_string(dropped) +
                     " because their queue was full";
  if (failed > 0) line += ", " + std::to_string(failed) + " failed, the last one: " + refusal_;
  log_(line);
  timer_ = loop_.After(kReportPeriod, [this] { Report(); });
}

}  // namespace longhaul::engines::kubernetes
