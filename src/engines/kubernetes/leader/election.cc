#include "engines/kubernetes/leader/election.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "base/utf8.h"

namespace longhaul::engines::kubernetes {
namespace {

using Json = nlohmann::ordered_json;

// What a holder writes when it gives the lease up: the shortest duration that the API server
// stores. A candidate never writes it for itself, and other programs release in the same way.
constexpr Duration kReleasedDuration = std::chrono::seconds(1);
constexpr Duration kLongestDuration = std::chrono::hours(1);
constexpr size_t kMaxIdentityBytes = 253;
constexpr Duration kMicrosecond = std::chrono::microseconds(1);

bool IsReleased(const Lease& lease) {
  return lease.holder.empty() && lease.duration == kReleasedDuration;
}

int64_t WholeSeconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::seconds>(duration).count();
}

// "2026-01-31T08:00:00.000000Z", the form of MicroTime.
std::string MicroTime(Instant at) {
  const int64_t micros = ToNanoseconds(at) / 1'000;
  std::string text = ToString(at).substr(0, sizeof("2026-01-31T08:00:00") - 1);
  AppendFormat(&text, ".%06dZ", static_cast<int>(micros % 1'000'000));
  return text;
}

Status Wrong(std::string_view setting, std::string_view value, std::string_view expected) {
  return InvalidArgument(std::string(setting) + " of the leader election is " + std::string(value) +
                         ", expected " + std::string(expected));
}

}  // namespace

Status Check(const ElectionSettings& settings) {
  using longhaul::ToString;
  const std::string& identity = settings.identity;
  if (identity.empty() || identity.size() > kMaxIdentityBytes || !IsUtf8(identity)) {
    return Wrong("identity", "'" + Printable(identity) + "'", "1 to 253 bytes of UTF-8 text");
  }
  const Duration lease = settings.lease_duration;
  // A second is the mark of a release.
  if (lease < std::chrono::seconds(2) || lease > kLongestDuration ||
      lease % std::chrono::seconds(1) != Duration::zero()) {
    return Wrong("lease_duration", ToString(lease), "whole seconds, from 2 s to 1 h");
  }
  if (settings.renew_deadline <= Duration::zero() || settings.renew_deadline >= lease) {
    return Wrong("renew_deadline", ToString(settings.renew_deadline),
                 "less than lease_duration, which is " + ToString(lease));
  }
  if (!(settings.jitter >= 0 && settings.jitter <= 1)) {
    return Wrong("jitter", std::to_string(settings.jitter), "0 to 1");
  }
  const std::string deadline = ToString(settings.renew_deadline);
  if (settings.retry_period <= Duration::zero() ||
      settings.retry_period * 2 >= settings.renew_deadline) {
    return Wrong("retry_period", ToString(settings.retry_period),
                 "less than half of renew_deadline, which is " + deadline);
  }
  if (settings.request_limit <= Duration::zero() ||
      settings.request_limit >= settings.renew_deadline) {
    return Wrong("request_limit", ToString(settings.request_limit),
                 "less than renew_deadline, which is " + deadline);
  }
  return Status();
}

Election::Election(ElectionSettings settings, uint64_t seed)
    : settings_(std::move(settings)), random_(seed) {
  const Status status = Check(settings_);
  CHECK(status.ok()) << status.message();
}

bool Election::Ours() const {
  return record_ && record_->holder == settings_.identity && record_->meta.uid == written_uid_;
}

bool Election::MayTake(Instant now) const {
  CHECK(record_.has_value());
  if (Ours() || IsReleased(*record_)) return true;
  if (record_->holder.empty() && leads(now)) return true;
  // The holder may count on the duration in its record. Somebody else may have shortened it without
  // the holder's knowledge.
  const Duration duration = record_->duration.value_or(settings_.lease_duration);
  return now - seen_at_ >= std::max(duration, settings_.lease_duration);
}

Election::Action Election::Next(Instant now, Instant wall) {
  if (in_progress_ != Kind::kWait) return {Kind::kBusy, "", now};
  if (ended_) return {Kind::kEnded, "", now};
  if (release_until_ && now >= *release_until_) {
    ended_ = true;
    return {Kind::kEnded, "", now};
  }
  if (now < next_at_) return {Kind::kWait, "", next_at_};
  sent_at_ = now;
  if (!in_attempt_) {
    in_attempt_ = true;
    read_ = false;
    attempt_at_ = now;
  }
  if (!current_) {
    read_ = true;
    return Send(Kind::kGet, "");
  }
  if (release_until_) return NextOfRelease(now, wall);
  if (absent_) {
    const Json created = {
        {"apiVersion", "coordination.k8s.io/v1"},
        {"kind", "Lease"},
        {"metadata", {{"name", settings_.lease_name}}},
        {"spec", {{"leaseDurationSeconds", WholeSeconds(settings_.lease_duration)}}}};
    return Send(Kind::kCreate, created.dump());
  }
  if (!MayTake(now)) {
    // Another candidate has it, or has had it until recently.
    EndAttempt();
    return {Kind::kWait, "", next_at_};
  }
  return Send(Kind::kPatch, TakeBody(wall));
}

Election::Action Election::NextOfRelease(Instant now, Instant wall) {
  if (absent_ || !Ours()) {
    ended_ = true;
    return {Kind::kEnded, "", now};
  }
  return Send(Kind::kPatch, ReleaseBody(wall));
}

Election::Action Election::Send(Kind kind, std::string body) {
  in_progress_ = kind;
  return {kind, std::move(body), sent_at_};
}

std::string Election::RenewTime(Instant wall) {
  // Others judge by changes: a time that comes again would be no change.
  last_renew_time_ = std::max(wall, last_renew_time_ + kMicrosecond);
  return MicroTime(last_renew_time_);
}

std::string Election::TakeBody(Instant wall) {
  const std::string renew_time = RenewTime(wall);
  Json spec = {{"holderIdentity", settings_.identity},
               {"leaseDurationSeconds", WholeSeconds(settings_.lease_duration)},
               {"renewTime", renew_time}};
  if (!Ours()) {
    spec["acquireTime"] = renew_time;
    const int32_t last = record_->transitions.value_or(-1);
    // The first holder is no transition.
    spec["leaseTransitions"] = last == std::numeric_limits<int32_t>::max() ? last : last + 1;
  }
  written_uid_ = record_->meta.uid;
  const Json patch = {{"metadata", {{"resourceVersion", record_->meta.resource_version}}},
                      {"spec", std::move(spec)}};
  return patch.dump();
}

std::string Election::ReleaseBody(Instant wall) {
  const Json patch = {{"metadata", {{"resourceVersion", record_->meta.resource_version}}},
                      {"spec",
                       {{"holderIdentity", ""},
                        {"leaseDurationSeconds", WholeSeconds(kReleasedDuration)},
                        {"renewTime", RenewTime(wall)}}}};
  return patch.dump();
}

Status Election::OnReply(const Verdict& verdict, std::string_view body, Instant now) {
  const Kind kind = std::exchange(in_progress_, Kind::kWait);
  switch (kind) {
    case Kind::kGet:
      return OnGet(verdict, body, now);
    case Kind::kCreate:
      return OnCreated(verdict, body, now);
    case Kind::kPatch:
      return OnPatched(verdict, body, now);
    case Kind::kWait:
    case Kind::kBusy:
    case Kind::kEnded:
      break;
  }
  CHECK(false) << "a reply without a request";
  return Status();
}

Status Election::OnGet(const Verdict& verdict, std::string_view body, Instant now) {
  if (verdict.outcome == Outcome::kNotFound) {
    record_.reset();
    absent_ = true;
    current_ = true;
    return Status();
  }
  if (verdict.outcome != Outcome::kDone) {
    EndAttempt();
    return verdict.status;
  }
  RETURN_IF_ERROR(Observe(body, now));
  const Duration duration = record_->duration.value_or(settings_.lease_duration);
  if (duration <= kLongestDuration || Ours()) return Status();
  // It is respected all the same: its holder may exist.
  return FailedPrecondition("lease " + Printable(settings_.lease_name) + " of holder '" +
                            Printable(record_->holder) + "' lasts " + longhaul::ToString(duration) +
                            " after each renewal, expected at most " +
                            longhaul::ToString(kLongestDuration) +
                            ": delete the Lease if this holder does not exist any more");
}

Status Election::OnCreated(const Verdict& verdict, std::string_view body, Instant now) {
  if (verdict.outcome == Outcome::kDone) return Observe(body, now);
  EndAttempt();
  // Another candidate has created it in the meantime.
  return verdict.outcome == Outcome::kAlreadyExists ? Status() : verdict.status;
}

Status Election::OnPatched(const Verdict& verdict, std::string_view body, Instant now) {
  if (verdict.outcome == Outcome::kConflict || verdict.outcome == Outcome::kNotFound) {
    // The record was replaced, perhaps by a write of this candidate whose reply was lost. A holder
    // reads it at once, but once in an attempt only.
    current_ = false;
    if (read_) EndAttempt();
    return Status();
  }
  if (verdict.outcome != Outcome::kDone) {
    EndAttempt();
    return verdict.status;
  }
  const std::string replaced = record_->meta.resource_version;
  RETURN_IF_ERROR(Observe(body, now));
  if (release_until_) {
    // The next action ends it, or releases what was renewed when the release began.
    return Status();
  }
  if (!Ours() || record_->meta.resource_version == replaced) {
    EndAttempt();
    return InternalError("the reply to a write of lease " + Printable(settings_.lease_name) +
                         " has another record than the one that was written");
  }
  const Instant until = sent_at_ + settings_.renew_deadline;
  // A reply that comes after the deadline makes nobody the leader.
  if (now < until) {
    if (!leads(now)) ++terms_;
    leads_until_ = until;
  }
  ScheduleNext();
  return Status();
}

Status Election::Observe(std::string_view body, Instant now) {
  const PaddedString text(body);
  Result<Lease> lease = ReadLease(parser_, text.view());
  if (!lease.ok()) {
    EndAttempt();
    return lease.status().WithContext("the reply of the API server about lease " +
                                      Printable(settings_.lease_name));
  }
  if (!record_ || !record_->SameRecord(*lease)) seen_at_ = now;
  record_ = *std::move(lease);
  absent_ = false;
  current_ = true;
  if (!record_->holder.empty() && !Ours()) leads_until_.reset();
  return Status();
}

void Election::EndAttempt() {
  current_ = false;
  ScheduleNext();
}

void Election::ScheduleNext() {
  const double factor = 1 + settings_.jitter * random_.Uniform();
  next_at_ = attempt_at_ + DurationFromSeconds(ToSeconds(settings_.retry_period) * factor);
  in_attempt_ = false;
}

void Election::Release(Instant now) {
  if (release_until_) return;
  leads_until_.reset();
  release_until_ = now + settings_.renew_deadline;
  // What it has never written to is not its own.
  if (written_uid_.empty()) ended_ = true;
  next_at_ = now;
}

}  // namespace longhaul::engines::kubernetes
