// Makes or removes a list of objects, one after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engines/kubernetes/client/client.h"
#include "engines/kubernetes/install/install_objects.h"

namespace longhaul::engines::kubernetes {

enum class InstallResult : uint8_t {
  kApplied,
  kRemoved,
  kAbsent,   // it was to be removed, and does not exist
  kRefused,  // see the status
};

class ObjectInstaller {
 public:
  struct Events {
    std::function<void(const InstallObject& object, InstallResult result, const Status& status)>
        done;
    std::function<void()> end;  // of all objects, or after one that was refused
  };

  // Objects are applied (server-side apply, as the field manager "longhaul") or removed, the last
  // one first. `force`: fields that another manager has set are taken over. Requires that the
  // client outlives this.
  ObjectInstaller(Client& client, std::vector<InstallObject> objects, bool remove, bool force,
                  Events events);

  void Start() { Next(); }

 private:
  void Next();
  // Without `then`, the answer ends the work on this object.
  void Send(const InstallObject& object, Result<Call> call,
            std::function<void(const Reply&)> then = nullptr);
  void Refuse(const InstallObject& object, const Status& status);

  Client& client_;
  std::vector<InstallObject> objects_;
  const bool remove_;
  const bool force_;
  Events events_;
  size_t next_ = 0;
};

}  // namespace longhaul::engines::kubernetes
