// For tests: one watch against the double of the API server, in virtual time, with faults.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/random.h"
#include "base/time.h"
#include "engines/kubernetes/double/api_double.h"
#include "engines/kubernetes/protocol/watch_state.h"

namespace longhaul::engines::kubernetes {

// What happens when, in virtual time.
class SimulatedAgenda {
 public:
  Instant now() const { return now_; }
  void At(Instant when, std::function<void()> what);
  void After(Duration delay, std::function<void()> what) { At(now_ + delay, std::move(what)); }
  // Does what is next. Returns false when nothing is left before `end`, which is the time then.
  bool Step(Instant end);

 private:
  Instant now_ = InstantFromNanoseconds(1'769'846'400'000'000'000);  // 2026-01-31T08:00:00Z
  std::multimap<Instant, std::function<void()>> agenda_;
};

// How long a message takes: mostly up to 30 ms, and sometimes up to 3 s.
Duration SimulatedDelay(Random& rng);

class SimulatedWatch : public WatchSink {
 public:
  struct Events {
    std::function<void(const Change&)> take;
    std::function<void()> delivered;  // after each message
    std::function<bool()> breaks;     // whether the connection breaks now
  };

  // Requires that agenda, api and rng outlive this. Begins with the first call of Pump.
  SimulatedWatch(SimulatedAgenda& agenda, ApiDouble& api, Random& rng, const Resource& resource,
                 const std::string& selector, Events events);

  // Sends the next request, and delivers what has happened since, late but in order.
  void Pump();
  bool synced() const { return synced_; }

  void OnChange(const Change& change) override { events_.take(change); }
  void OnSynced() override { synced_ = true; }
  void OnTrouble(const Status& status) override;

 private:
  void Later(std::function<void()> what);
  void Close();
  bool PumpStream();
  void TakeLines(const std::string& lines);

  SimulatedAgenda& agenda_;
  ApiDouble& api_;
  Random& rng_;
  Events events_;
  WatchState state_;
  std::optional<ApiWatch> stream_;
  uint64_t stream_number_ = 0;
  Instant last_delivery_{};
  bool synced_ = false;
  // Expired when an event of the agenda comes after the end of this.
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace longhaul::engines::kubernetes
