#include "engines/kubernetes/jobs/simulation/simulated_watch.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace longhaul::engines::kubernetes {
namespace {

WatchSettings SettingsOf(const Resource& resource, const std::string& selector) {
  WatchSettings settings;
  settings.path = ListCall(resource, "")->target;
  settings.selector = selector;
  return settings;
}

}  // namespace

void SimulatedAgenda::At(Instant when, std::function<void()> what) {
  agenda_.emplace(std::max(when, now_), std::move(what));
}

bool SimulatedAgenda::Step(Instant end) {
  if (agenda_.empty() || agenda_.begin()->first > end) {
    now_ = std::max(now_, end);
    return false;
  }
  auto next = agenda_.extract(agenda_.begin());
  now_ = next.key();
  next.mapped()();
  return true;
}

Duration SimulatedDelay(Random& rng) {
  const uint64_t most = rng.Below(20) == 0 ? 3'000 : 30;
  return std::chrono::milliseconds(1 + static_cast<int64_t>(rng.Below(most)));
}

SimulatedWatch::SimulatedWatch(SimulatedAgenda& agenda, ApiDouble& api, Random& rng,
                               const Resource& resource, const std::string& selector, Events events)
    : agenda_(agenda),
      api_(api),
      rng_(rng),
      events_(std::move(events)),
      state_(SettingsOf(resource, selector), rng.Next(), *this) {}

void SimulatedWatch::OnTrouble(const Status& /*status*/) {}

void SimulatedWatch::Later(std::function<void()> what) {
  last_delivery_ = std::max(last_delivery_, agenda_.now() + SimulatedDelay(rng_));
  agenda_.At(last_delivery_, [this, alive = std::weak_ptr<const bool>(alive_),
                              number = stream_number_, what = std::move(what)] {
    if (alive.expired() || number != stream_number_) return;
    what();
    Pump();
    events_.delivered();
  });
}

void SimulatedWatch::Close() {
  stream_.reset();
  ++stream_number_;
}

void SimulatedWatch::TakeLines(const std::string& lines) {
  for (const std::string_view line : Split(lines, '\n')) {
    if (line.empty()) continue;
    if (!stream_) return;
    if (!state_.OnLine(PaddedString(line).view(), agenda_.now())) Close();
  }
}

// Returns whether the stream has ended, so that the next request is due.
bool SimulatedWatch::PumpStream() {
  if (events_.breaks()) {
    Close();
    state_.OnEnd(Unavailable("cut"), agenda_.now());
    return true;
  }
  if (api_.Expired(*stream_)) {
    Close();
    state_.OnLine(PaddedString(ApiDouble::ExpiredLine()).view(), agenda_.now());
    return true;
  }
  std::string lines = api_.NextLines(*stream_);
  if (!lines.empty()) Later([this, lines = std::move(lines)] { TakeLines(lines); });
  return false;
}

void SimulatedWatch::Pump() {
  if (stream_ && !PumpStream()) return;
  const WatchState::Action action = state_.Next(agenda_.now());
  if (action.kind == WatchState::Kind::kBusy) return;
  if (action.kind == WatchState::Kind::kWait) {
    agenda_.At(action.at, [this, alive = std::weak_ptr<const bool>(alive_)] {
      if (!alive.expired()) Pump();
    });
    return;
  }
  ApiResponse response = api_.Handle(RequestFor("GET", action.target, ""));
  if (action.kind == WatchState::Kind::kList) {
    Later([this, body = std::move(response.body)] {
      state_.OnPage(PaddedString(body).view(), agenda_.now());
    });
    return;
  }
  const bool opened = response.watch.has_value();
  if (opened) {
    stream_ = std::move(response.watch);
    ++stream_number_;
  }
  Later([this, opened, body = std::move(response.body)] {
    if (opened) return TakeLines(body);
    // Refused by a line: the stream has ended.
    for (const std::string_view line : Split(body, '\n')) {
      if (!line.empty() && !state_.OnLine(PaddedString(line).view(), agenda_.now())) return;
    }
    state_.OnEnd(Status(), agenda_.now());
  });
}

}  // namespace longhaul::engines::kubernetes
