// Leader election by a Lease: the state machine of one candidate.
//
// Pure: the time of the candidate's own monotonic clock, the time of day, a seed and replies go in;
// the next request and leads() come out. One request is in progress at a time.
//
// The rules, and what follows from them:
// - A candidate leads from the reply to a write of its own until `renew_deadline` after the moment
//   before it sent that write. It never leads because of what it has read.
// - A candidate writes over the record of another one, or over a record without a holder, only when
//   it has seen the same record for the longer one of the record's duration and its own
//   `lease_duration`, by its own clock. Wall-clock times are written for people and never compared.
//   A record that a holder has released (no holder, a duration of one second) is free at once.
// - Each write has the version of the record that it replaces as its precondition, and differs from
//   it: `renewTime` rises with each write of a candidate, even if the time of day does not.
// - An absent Lease is created without a holder, which makes nobody the leader. Only the candidate
//   that leads may take it at once, so that a Lease that was deleted makes no second leader. The
//   first start of an installation takes a lease duration longer for this.
//
// So no two candidates lead at the same instant if, while any one of their clocks counts
// `lease_duration`, every other one counts at least `renew_deadline`: with the defaults clocks may
// differ in rate by a factor of 1.5, or one may stop for 5 s (a suspended virtual machine). Network
// and server may lose, delay and repeat requests in any way; pauses of a process during which its
// clock runs, deletions of the Lease and changes of its fields by others are permitted, except
// writing the record of a release. Requires that no two processes ever use the same identity.
//
// leads() is true at the instant for which it was called. A process that is paused between that and
// its next request acts late; the version or uid in that request is what the API server checks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/random.h"
#include "base/status.h"
#include "base/time.h"
#include "engines/kubernetes/protocol/objects/lease.h"
#include "engines/kubernetes/protocol/response.h"

namespace longhaul::engines::kubernetes {

struct ElectionSettings {
  std::string lease_name;
  std::string identity;  // of this process alone, such as a pod's name and a random number
  Duration lease_duration = std::chrono::seconds(15);  // whole seconds
  Duration renew_deadline = std::chrono::seconds(10);
  // Between the starts of two attempts; up to `jitter` of it is added, which differs each time.
  Duration retry_period = std::chrono::seconds(2);
  double jitter = 0.2;
  // The caller must end each request within this time.
  Duration request_limit = std::chrono::seconds(3);
};
// kInvalidArgument that names the setting.
Status Check(const ElectionSettings& settings);

class Election {
 public:
  // Requires settings that pass Check.
  Election(ElectionSettings settings, uint64_t seed);

  enum class Kind {
    kGet,     // send a GET of the Lease
    kCreate,  // send a POST of `body`
    kPatch,   // send a JSON merge patch of `body`
    kWait,    // nothing to send before `at`
    kBusy,    // a request is in progress
    kEnded,   // the lease is released, or that has failed until its limit
  };
  struct Action {
    Kind kind = Kind::kBusy;
    std::string body;
    Instant at;
  };
  // What to do now. A request that it returns is in progress until OnReply. `now` must have been
  // read before the request is sent; `wall` is the time of day.
  Action Next(Instant now, Instant wall);
  // The reply to the request in progress: its verdict, and its body if that is kDone. `now` must
  // have been read after the reply arrived. Returns what is wrong with the reply, for a person; the
  // request is sent again later.
  Status OnReply(const Verdict& verdict, std::string_view body, Instant now);

  bool leads(Instant now) const { return leads_until_ && now < *leads_until_; }
  // Until when it leads if it writes nothing more. Nothing when it has ceased to lead earlier.
  std::optional<Instant> leads_until() const { return leads_until_; }
  // How often it has begun to lead.
  uint64_t terms() const { return terms_; }
  // The holder of the record that was last seen; empty when there is none.
  std::string holder() const { return record_ ? record_->holder : std::string(); }

  // Ceases to lead now, and gives the lease up within `renew_deadline` if it has it.
  void Release(Instant now);

 private:
  bool Ours() const;
  bool MayTake(Instant now) const;
  Action NextOfRelease(Instant now, Instant wall);
  Action Send(Kind kind, std::string body);
  std::string TakeBody(Instant wall);
  std::string ReleaseBody(Instant wall);
  std::string RenewTime(Instant wall);

  Status OnGet(const Verdict& verdict, std::string_view body, Instant now);
  Status OnCreated(const Verdict& verdict, std::string_view body, Instant now);
  Status OnPatched(const Verdict& verdict, std::string_view body, Instant now);
  // Reads a lease and stores it as the present record.
  Status Observe(std::string_view body, Instant now);
  // The present record is not known: the next attempt begins with a GET, after a delay.
  void EndAttempt();
  void ScheduleNext();

  const ElectionSettings settings_;
  Random random_;
  JsonParser parser_;

  std::optional<Lease> record_;  // as last seen
  Instant seen_at_;              // when this record was first seen
  bool current_ = false;         // nothing has happened since that may have replaced it
  bool absent_ = false;          // current: there is no Lease
  // Of the Lease that this process has written to: a record with its identity in another one is not
  // its own, but was restored by somebody else.
  std::string written_uid_;
  Instant last_renew_time_;  // of a write; a time of day

  Kind in_progress_ = Kind::kWait;
  // An attempt is a GET and what follows from it, or of the holder a write alone.
  bool in_attempt_ = false;
  bool read_ = false;  // the attempt had a GET
  Instant attempt_at_;
  Instant sent_at_;
  Instant next_at_;
  std::optional<Instant> leads_until_;
  uint64_t terms_ = 0;
  std::optional<Instant> release_until_;
  bool ended_ = false;
};

}  // namespace longhaul::engines::kubernetes
