// A watch of a resource that the API server may not have. It is looked for once a minute, because
// its definition may be installed later.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "engines/kubernetes/client/client.h"
#include "engines/kubernetes/client/watch_connection.h"
#include "io/event_loop.h"

namespace longhaul::engines::kubernetes {

class OptionalWatch : private WatchSink {
 public:
  struct Events {
    std::function<void(const Change&)> changed;
    // Something became known: that the resource is not served, or all objects that exist.
    std::function<void()> known;
    std::function<void(const Status&)> trouble;
  };

  // Begins with the loop's next turn. Requires that loop and client outlive this.
  OptionalWatch(io::EventLoop& loop, Client& client, Resource resource, std::string selector,
                Events events);
  ~OptionalWatch() override;

  // Without the resource there is nothing to wait for.
  bool is_known() const { return looked_ && (connection_ == nullptr || synced_); }
  bool served() const { return connection_ != nullptr; }
  // No call is on its way.
  bool idle() const { return !asks_; }
  void Stop() { stopped_ = true; }

 private:
  void Look();
  void OnFound(const Reply& reply);

  void OnChange(const Change& change) override { events_.changed(change); }
  void OnSynced() override;
  void OnTrouble(const Status& status) override { events_.trouble(status); }

  io::EventLoop& loop_;
  Client& client_;
  const Resource resource_;
  const std::string selector_;
  Events events_;
  bool asks_ = false;
  bool looked_ = false;  // whether it is served is known
  bool synced_ = false;
  bool stopped_ = false;
  std::optional<io::EventLoop::TimerId> timer_;
  std::unique_ptr<WatchConnection> connection_;
};

}  // namespace longhaul::engines::kubernetes
