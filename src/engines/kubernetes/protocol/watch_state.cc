#include "engines/kubernetes/protocol/watch_state.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/text.h"

namespace longhaul::engines::kubernetes {
namespace {

// Percent-encodes what a query may not contain.
std::string Escaped(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string escaped;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
    if (plain) {
      escaped.push_back(c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    escaped.push_back('%');
    escaped.push_back(kHex[byte >> 4]);
    escaped.push_back(kHex[byte & 15]);
  }
  return escaped;
}

Duration Fraction(Duration duration, double fraction) {
  return Duration(static_cast<int64_t>(static_cast<double>(duration.count()) * fraction));
}

bool IsExpired(const ApiStatus& status) {
  return status.code == 410 || status.reason == "Expired" || status.reason == "Gone";
}

}  // namespace

WatchState::WatchState(WatchSettings settings, uint64_t seed, WatchSink& sink)
    : settings_(std::move(settings)),
      random_(seed),
      sink_(sink),
      streaming_list_(settings_.streaming_list) {
  StartList();
}

std::string WatchState::Target(std::string_view parameters) const {
  // The selector is escaped already; it is part of each request, lists included.
  std::string target = settings_.path + "?" + std::string(parameters);
  if (!settings_.selector.empty()) target += "&" + settings_.selector;
  return target;
}

WatchState::Action WatchState::Next(Instant now) {
  if (in_progress_) return {Kind::kBusy, "", {}};
  if (now < open_at_) return {Kind::kWait, "", open_at_};
  in_progress_ = true;
  ++requests_;
  if (listing_ && !streaming_list_) {
    std::string parameters = "limit=" + std::to_string(settings_.page_limit);
    if (!continue_token_.empty()) parameters += "&continue=" + Escaped(continue_token_);
    return {Kind::kList, Target(parameters), {}};
  }
  // Spread, so that the watches of many clients do not end at the same time.
  const Duration timeout =
      settings_.server_timeout + Fraction(settings_.server_timeout, random_.Uniform());
  const int64_t timeout_s =
      std::max<int64_t>(1, std::chrono::duration_cast<std::chrono::seconds>(timeout).count());
  std::string parameters =
      "watch=1&allowWatchBookmarks=true&timeoutSeconds=" + std::to_string(timeout_s);
  parameters += listing_ ? "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
                         : "&resourceVersion=" + Escaped(version_);
  idle_at_ = now + settings_.idle_limit;
  lines_ = 0;
  return {Kind::kStream, Target(parameters), {}};
}

void WatchState::StartList() {
  listing_ = true;
  // An old version must not be sent again: the server would answer 410 once more.
  version_.clear();
  continue_token_.clear();
  // What the new list does not show is then known by its lower round.
  ++round_;
}

void WatchState::OnPage(PaddedText body, Instant now) {
  CHECK(in_progress_ && listing_);
  const Result<ListPage> page = ReadListPage(event_parser_, body);
  if (!page.ok()) return Fail(page.status(), std::nullopt, now);
  for (const PaddedText item : page->items) {
    // A list that cannot be read has no end; the objects of the next one are the same.
    const Result<ObjectMeta> meta = ReadObjectMeta(object_parser_, item);
    if (!meta.ok()) return Fail(meta.status(), std::nullopt, now);
    Observe(WatchEventType::kAdded, *meta, item);
  }
  in_progress_ = false;
  continue_token_ = page->continue_token;
  if (continue_token_.empty()) FinishList(page->resource_version);
}

void WatchState::FinishList(std::string version) {
  std::vector<std::pair<std::string, Known>> gone;
  for (const auto& [key, known] : known_) {
    if (known.round != round_) gone.emplace_back(key, known);
  }
  // In the order of the names, not in that of the table.
  std::sort(gone.begin(), gone.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [key, known] : gone) {
    known_.erase(key);
    ReportDeletion(key, known);
  }
  version_ = std::move(version);
  listing_ = false;
  synced_ = true;
  sink_.OnSynced();
}

void WatchState::Report(ChangeKind kind, const ObjectMeta& meta, PaddedText object) {
  sink_.OnChange({kind, meta, object});
}

void WatchState::ReportDeletion(const std::string& key, const Known& known) {
  ObjectMeta meta;
  const size_t slash = key.find('/');
  meta.name = slash == key.npos ? key : key.substr(slash + 1);
  if (slash != key.npos) meta.namespace_name = key.substr(0, slash);
  meta.uid = known.uid;
  meta.resource_version = known.version;
  Report(ChangeKind::kDeleted, meta, {});
}

void WatchState::Observe(WatchEventType type, const ObjectMeta& meta, PaddedText object) {
  // Within a list the objects come in the order of their names, so that their versions are no place
  // to continue from.
  if (!listing_) version_ = meta.resource_version;
  std::string key = meta.Key();
  const auto found = known_.find(key);
  if (type == WatchEventType::kDeleted) {
    if (found == known_.end() || found->second.uid != meta.uid) return;  // sent twice
    known_.erase(found);
    Report(ChangeKind::kDeleted, meta, object);
    return;
  }
  if (found != known_.end() && found->second.uid == meta.uid) {
    // Also for an object that has not changed: the list has shown it.
    found->second.round = round_;
    if (found->second.version == meta.resource_version) return;  // known already
    found->second.version = meta.resource_version;
    Report(ChangeKind::kModified, meta, object);
    return;
  }
  if (found != known_.end()) {
    // The name has been deleted and created again, unobserved.
    const Known old = std::move(found->second);
    known_.erase(found);
    ReportDeletion(key, old);
  }
  known_[std::move(key)] = {meta.uid, meta.resource_version, round_};
  Report(ChangeKind::kAdded, meta, object);
}

bool WatchState::OnLine(PaddedText line, Instant now) {
  CHECK(in_progress_);
  idle_at_ = now + settings_.idle_limit;
  ++lines_;
  const Result<WatchEvent> event = ReadWatchEvent(event_parser_, line);
  const Status& status = event.status();
  if (event.ok()) {
    if (event->type == WatchEventType::kError) return OnErrorEvent(event->object, now);
    if (event->type == WatchEventType::kBookmark) return OnBookmark(event->object, now);
    Observe(event->type, event->meta, event->object);
  }
  if (status.ok()) {
    if (!listing_) failures_ = 0;
    return true;
  }
  // What this event changed is unknown, so only a new list gives the state.
  StartList();
  Fail(status, std::nullopt, now);
  return false;
}

bool WatchState::OnBookmark(PaddedText object, Instant now) {
  Result<Bookmark> bookmark = ReadBookmark(object_parser_, object);
  if (!bookmark.ok()) {
    Fail(bookmark.status(), std::nullopt, now);
    return false;
  }
  if (!listing_) {
    version_ = std::move(bookmark->resource_version);
    failures_ = 0;
  } else if (bookmark->ends_initial_events) {
    FinishList(std::move(bookmark->resource_version));
  }
  return true;
}

bool WatchState::OnErrorEvent(PaddedText object, Instant now) {
  const Result<ApiStatus> error = ReadApiStatus(object_parser_, object);
  if (error.ok() && IsExpired(*error)) {
    Expire(now);
    return false;
  }
  const std::string message = error.ok() ? error->reason + ": " + error->message
                                         : std::string("an error without a readable status");
  std::optional<Duration> delay;
  if (error.ok() && error->retry_after_seconds > 0) {
    delay = std::min<Duration>(
        std::chrono::seconds(std::min<int64_t>(error->retry_after_seconds, 24 * 60 * 60)),
        kLongestRetryAfter);
  }
  Fail(Unavailable("watch " + settings_.path + " ended with " + Printable(message, 300)), delay,
       now);
  return false;
}

void WatchState::OnRefused(const Verdict& verdict, Instant now) {
  CHECK(in_progress_);
  // The token of a page, or a version that was too old when the watch was opened.
  if (verdict.outcome == Outcome::kGone) return Expire(now);
  if (verdict.outcome == Outcome::kInvalid && listing_ && streaming_list_) {
    // The server has no streaming lists (before 1.34 they are off by default).
    streaming_list_ = false;
    in_progress_ = false;
    idle_at_.reset();
    return;
  }
  Fail(verdict.status, verdict.retry_after, now);
}

void WatchState::OnEnd(const Status& status, Instant now) {
  CHECK(in_progress_);
  // A list that ended within its initial events is incomplete.
  if (listing_) {
    StartList();
    return Fail(
        status.ok() ? Unavailable("the list of " + settings_.path + " ended early") : status,
        std::nullopt, now);
  }
  if (!status.ok()) return Fail(status, std::nullopt, now);
  if (lines_ > 0) return Reopen(now);
  // Even a watch without changes has bookmarks: without a delay the request would be sent in a
  // loop.
  Fail(Unavailable("the watch of " + settings_.path + " ended without a line"), std::nullopt, now);
}

void WatchState::OnIdle(Instant now) {
  CHECK(in_progress_);
  const std::string limit = longhaul::ToString(settings_.idle_limit);
  if (listing_ && streaming_list_) {
    // A server that ignores sendInitialEvents never sends the bookmark.
    streaming_list_ = false;
    StartList();
  }
  Fail(Unavailable("watch " + settings_.path + " received no line for " + limit), std::nullopt,
       now);
}

void WatchState::Reopen(Instant now) {
  in_progress_ = false;
  idle_at_.reset();
  open_at_ = now + Fraction(settings_.reopen_jitter, random_.Uniform());
}

void WatchState::Expire(Instant now) {
  StartList();
  // The first time at once: every event until the next list is unknown. Later with a delay, so that
  // a server that always answers so is not flooded.
  if (failures_++ == 0) return Reopen(now);
  Fail(OutOfRange("the version of " + settings_.path + " has expired again"), std::nullopt, now);
}

void WatchState::Fail(const Status& status, std::optional<Duration> least_delay, Instant now) {
  in_progress_ = false;
  idle_at_.reset();
  // A list that failed begins again from nothing: what it has shown may be deleted by then, and a
  // page's token may be what failed.
  if (listing_) StartList();
  // Beyond 16 doublings the delay is the longest one anyhow, and the shift would overflow.
  const int doublings = std::min(failures_, 16);
  ++failures_;
  const Duration delay =
      std::min(settings_.longest_delay, settings_.first_delay * (int64_t{1} << doublings));
  const Duration spread = Fraction(delay, 0.5 + 0.5 * random_.Uniform());
  // The server's own delay is a minimum; jitter is added to it, because many clients got the same
  // one.
  open_at_ = now + std::max(spread, least_delay.value_or(Duration::zero()) +
                                        Fraction(spread, least_delay ? 0.5 : 0.0));
  sink_.OnTrouble(status);
}

}  // namespace longhaul::engines::kubernetes
