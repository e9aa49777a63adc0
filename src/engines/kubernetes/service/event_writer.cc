#include "engines/kubernetes/service/event_writer.h"

#include <utility>

#include "engines/kubernetes/scheduling/pod_calls.h"
#include "io/clock.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr Duration kReportPeriod = std::chrono::minutes(1);
constexpr Duration kBoundPeriod = std::chrono::milliseconds(100);

}  // namespace

EventWriter::EventWriter(io::EventLoop& loop, Client& client,
                         std::function<void(const RecordPodEvent&)> lost,
                         std::function<void(const std::string&)> log)
    : loop_(loop),
      client_(client),
      lost_(std::move(lost)),
      log_(std::move(log)),
      most_bound_(client.room(TrafficClass::kEvent) / 2) {}

EventWriter::~EventWriter() {
  for (const auto& timer : {timer_, bound_timer_}) {
    if (timer) loop_.Cancel(*timer);
  }
}

void EventWriter::Write(const RecordPodEvent& event) {
  if (event.reason != RecordPodEvent::Reason::kScheduled) return Send(event, io::Now());
  if (bound_.size() >= most_bound_) {
    ++counts_.dropped;
    return Lose(event);
  }
  bound_.emplace_back(event, io::Now());
  if (!bound_timer_) SendBound();
}

void EventWriter::SendBound() {
  bound_timer_.reset();
  if (bound_.empty()) return;
  const auto [event, wall] = std::move(bound_.front());
  bound_.pop_front();
  Send(event, wall);
  bound_timer_ = loop_.After(kBoundPeriod, [this] { SendBound(); });
}

void EventWriter::Send(const RecordPodEvent& event, Instant wall) {
  if (client_.room(TrafficClass::kEvent) == 0) {
    ++counts_.dropped;
    return Lose(event);
  }
  Result<Call> call = CallFor(event, ToString(wall));
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
