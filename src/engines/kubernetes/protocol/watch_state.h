// Keeps a complete view of one resource: list, then watch, and again after each interruption.
//
// A pure state machine. It decides which request is sent next and when, takes what the API server
// answers, and reports changes of objects. It remembers the name, uid and version of each object,
// so that after a new list it reports the difference only, deletions included.
//
//   list     a streaming list (a watch with sendInitialEvents; its end is a bookmark with the
//            annotation k8s.io/initial-events-end) or, where the server refuses that, pages of
//            `page_limit` objects
//   watch    from the newest version; bookmarks only move the version
//   410      as an HTTP status or as an ERROR event: list again
//   end      the server ends each watch after some minutes: continue from the newest version
//
// Failures are repeated with a delay that doubles up to `longest_delay`, each with jitter. Versions
// are opaque. The order of events is the server's; it holds within one resource only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/random.h"
#include "base/status.h"
#include "base/time.h"
#include "engines/kubernetes/protocol/objects/json_parser.h"
#include "engines/kubernetes/protocol/objects/object_meta.h"
#include "engines/kubernetes/protocol/objects/padded_text.h"
#include "engines/kubernetes/protocol/response.h"
#include "engines/kubernetes/protocol/watch_event.h"

namespace longhaul::engines::kubernetes {

struct WatchSettings {
  std::string path;            // "/api/v1/pods"
  std::string selector;        // "fieldSelector=status.phase%21%3DFailed": escaped, may be empty
  bool streaming_list = true;  // false: pages only
  int page_limit = 500;
  // The server ends the watch after this time or up to twice of it.
  Duration server_timeout = std::chrono::minutes(5);
  // A watch without any line for so long is dead; bookmarks arrive about once a minute.
  Duration idle_limit = std::chrono::seconds(150);
  Duration reopen_jitter = std::chrono::milliseconds(200);
  Duration first_delay = std::chrono::milliseconds(200);
  Duration longest_delay = std::chrono::seconds(30);
};

enum class ChangeKind { kAdded, kModified, kDeleted };

struct Change {
  ChangeKind kind = ChangeKind::kAdded;
  // For a deletion that a new list revealed, only the names, the uid and the last known version.
  const ObjectMeta& meta;
  PaddedText object;  // the JSON; empty for such a deletion
};

class WatchSink {
 public:
  virtual ~WatchSink() = default;
  // `change` is valid during the call.
  virtual void OnChange(const Change& change) = 0;
  // All objects of a list have been reported: the view is complete. Called again after each list.
  virtual void OnSynced() = 0;
  // A request failed or an answer was not understood; it is repeated later.
  virtual void OnTrouble(const Status& status) = 0;
};

class WatchState {
 public:
  // Requires that `sink` outlives this.
  WatchState(WatchSettings settings, uint64_t seed, WatchSink& sink);

  enum class Kind {
    kList,    // send the request; pass the whole body to OnPage
    kStream,  // send the request; pass its lines to OnLine
    kWait,    // nothing to send before `at`
    kBusy,    // a request is in progress
  };
  struct Action {
    Kind kind = Kind::kBusy;
    std::string target;
    Instant at;
  };
  // What to do now. A request that it returns is in progress until OnPage, OnRefused or OnEnd.
  Action Next(Instant now);

  void OnPage(PaddedText body, Instant now);
  // A line of the stream. Returns false when the stream must be closed: the request has ended then,
  // and OnEnd must not be called.
  bool OnLine(PaddedText line, Instant now);
  // The response was not 2xx, or there was none.
  void OnRefused(const Verdict& verdict, Instant now);
  // The stream ended: ok for a regular end.
  void OnEnd(const Status& status, Instant now);

  // When the stream counts as dead if no line arrives before; call OnIdle then and close it.
  // Nothing when no stream is open.
  std::optional<Instant> idle_at() const { return idle_at_; }
  void OnIdle(Instant now);

  bool synced() const { return synced_; }
  uint64_t requests() const { return requests_; }
  size_t objects() const { return known_.size(); }
  const std::string& version() const { return version_; }

 private:
  struct Known {
    std::string uid;
    std::string version;
    uint64_t round = 0;  // of the list that has it
  };

  std::string Target(std::string_view parameters) const;
  void StartList();
  void FinishList(std::string version);
  // Reports one object of a list or event.
  void Observe(WatchEventType type, const ObjectMeta& meta, PaddedText object);
  void Report(ChangeKind kind, const ObjectMeta& meta, PaddedText object);
  void ReportDeletion(const std::string& key, const Known& known);
  bool OnErrorEvent(PaddedText object, Instant now);
  bool OnBookmark(PaddedText object, Instant now);
  // Ends the request in progress; the next one is sent after a delay.
  void Reopen(Instant now);
  void Fail(const Status& status, std::optional<Duration> least_delay, Instant now);
  void Expire(Instant now);

  const WatchSettings settings_;
  Random random_;
  WatchSink& sink_;
  JsonParser event_parser_;   // of the line; `object` of an event points into it
  JsonParser object_parser_;  // of the object within the line

  bool streaming_list_;  // until the server refuses it
  bool listing_ = true;  // the view is not complete
  bool in_progress_ = false;
  bool synced_ = false;  // has been complete once
  std::string version_;
  std::string continue_token_;
  Instant open_at_;
  std::optional<Instant> idle_at_;
  uint64_t lines_ = 0;  // of this stream
  int failures_ = 0;    // since the last event of a watch; a list alone is no progress

  uint64_t requests_ = 0;
  uint64_t round_ = 0;
  std::unordered_map<std::string, Known> known_;
};

}  // namespace longhaul::engines::kubernetes
