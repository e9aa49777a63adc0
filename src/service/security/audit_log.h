// Who did what: one JSON object a line, in the controller's folder.
//
//   {"at": "2026-01-31T08:00:00.000Z", "who": "alice", "role": "operate", "from": "10.0.0.7",
//    "did": "POST /v1/jobs/{id}/stop", "object": "gpt-1", "status": 200}
// `who` and `role` are absent when nobody was identified; a refused action has "error", and
// "unlogged": N if N refused ones before it were left out. Bodies, tokens and values of
// environments are never in it.
//
// Bounded: the file is rotated to FILE.1, FILE.2, ... by size, and so many refused actions are
// written that an attacker cannot displace the others soon (RefusalLimit). A line is in the page
// cache when Record returns; it is not synced, so a loss of power may lose the last ones.
// Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/time.h"
#include "io/fd.h"
#include "service/security/role.h"

namespace longhaul::service {

struct AuditEntry {
  Identity who;        // without a name: unknown
  std::string from;    // address of the client
  std::string did;     // "POST /v1/jobs/{id}/stop", "connect agent"
  std::string object;  // of the action: a job, a node, a token's name
  int status = 200;    // of the answer, as in HTTP
  std::string error;   // of a refused action
};

// Returns the entry of an action by an unknown client that was refused.
AuditEntry RefusedEntry(const std::string& from, const std::string& did, int status,
                        const std::string& error);

// Returns the line of an entry, with its line feed. Texts from outside are made printable and cut.
std::string AuditLine(const AuditEntry& entry, uint64_t unlogged, Instant now);

// How many refused actions are written: a burst, then one every `period`. Pure.
class RefusalLimit {
 public:
  static constexpr uint64_t kBurst = 100;
  static constexpr Duration kPeriod = std::chrono::seconds(10);

  // Whether one at this time is written; counts the others.
  bool Admit(Instant now);
  // The number of those that were not admitted since the last call.
  uint64_t TakeUnlogged();

 private:
  uint64_t left_ = kBurst;
  uint64_t unlogged_ = 0;
  Instant refilled_;
};

class AuditLog {
 public:
  struct Limits {
    uint64_t bytes = 16 << 20;  // of one file
    int files = 8;              // with the present one
  };

  AuditLog(std::string path, Limits limits) : path_(std::move(path)), limits_(limits) {}

  // Opens the file, which is created with mode 0600; refuses one that others may read.
  Status Open();

  // Writes an entry; one with status >= 400 only as often as RefusalLimit admits. A failure is
  // logged, once until a line can be written again.
  void Record(const AuditEntry& entry, Instant now);

 private:
  // These require mutex_.
  Status Write(const std::string& line);
  Status Rotate();

  const std::string path_;
  const Limits limits_;
  std::mutex mutex_;  // guards all below
  io::Fd file_;
  uint64_t bytes_ = 0;
  RefusalLimit refusals_;
  bool failed_ = false;
};

}  // namespace longhaul::service
