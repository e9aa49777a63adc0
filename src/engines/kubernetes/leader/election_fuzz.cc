// Any replies in any order: a candidate leads only by its own write, and sends what can be read.
//
// Each line of the input is a reply, by its first character: `d` a body, `p` the record that was
// written, with this version; n, c, a, u, f refusals. `t` lets seconds pass and `r` releases.

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "engines/kubernetes/leader/election.h"

using namespace longhaul;
using namespace longhaul::engines::kubernetes;

namespace {

using Json = nlohmann::json;
using Kind = Election::Kind;

Outcome OutcomeOf(char letter) {
  switch (letter) {
    case 'n':
      return Outcome::kNotFound;
    case 'c':
      return Outcome::kConflict;
    case 'a':
      return Outcome::kAlreadyExists;
    case 'u':
      return Outcome::kUnreachable;
    default:
      return Outcome::kForbidden;
  }
}

// The record that a request has written, as the API server would return it.
std::string Written(const Election::Action& action, std::string_view version) {
  Json lease = {{"metadata", {{"name", "l"}, {"uid", "u"}, {"resourceVersion", version}}}};
  if (!action.body.empty()) lease["spec"] = Json::parse(action.body)["spec"];
  return lease.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ElectionSettings settings;
  settings.lease_name = "l";
  settings.identity = "a";
  Election election(settings, 1);
  Instant now = InstantFromNanoseconds(0);
  Instant written_at = now - settings.renew_deadline;  // when a record of its own was sent
  bool released = false;
  Election::Action action;
  // The next request; it is in progress until the next line that is a reply.
  const auto advance = [&] {
    action = election.Next(now, now);
    for (int waits = 0; action.kind == Kind::kWait; ++waits) {
      CHECK(waits < 3);
      now = std::max(now, action.at);
      action = election.Next(now, now);
    }
    CHECK(action.kind != Kind::kBusy);
    CHECK(action.kind != Kind::kPatch || Json::parse(action.body).contains("metadata"));
  };
  advance();
  for (std::string_view line : Split(text, '\n')) {
    if (line.empty() || action.kind == Kind::kEnded) continue;
    const char letter = line[0];
    line.remove_prefix(1);
    if (letter == 'r') {
      election.Release(now);
      released = true;
      written_at = now - settings.renew_deadline;  // it leads no more
    }
    if (letter == 't') now += std::chrono::seconds(line.size() % 20);
    if (letter == 'r' || letter == 't') continue;
    const bool done = letter == 'd' || letter == 'p';
    Verdict verdict;
    if (!done) verdict = {OutcomeOf(letter), Unavailable("refused"), std::nullopt};
    const std::string body = letter == 'p' ? Written(action, line) : std::string(line);
    const Status status = election.OnReply(verdict, done ? body : "", now);
    if (action.kind == Kind::kPatch && done && status.ok() && !released) written_at = action.at;
    CHECK(!election.leads(now) || now < written_at + settings.renew_deadline);
    advance();
  }
  return 0;
}
