// A folder that has one owner at a time: its lock file and the identity of the owner.
//
// The lock is flock(2) on FOLDER/owner.lock. It belongs to the open file, so a child that inherits
// The lock is flock(2) on FOLDER/owner.lock. It belongs to the open file, so a child that inherits
// the descriptor holds it too, and the kernel releases it when the last holder has ended in any
// way. The text in the file identifies the owner in messages; without a lock it is stale.
//
// Leaves out file systems whose flock does not reach other hosts: there two hosts can both own a
// folder.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "base/time.h"
#include "io/fd.h"

namespace longhaul::io {

class OwnerLock {
 public:
  // Makes FOLDER/owner.lock (mode 0600) and locks it. `purpose` identifies the owner to others, for
  // example "longhaul run". kAlreadyExists, with the owner's identity, when another process holds
  // the lock. Requires that the folder exists.
  static Result<OwnerLock> Take(const std::string& folder, const std::string& purpose);

  // The same, but tries again until `limit` has passed while another process holds the lock. Calls
  // `waits` once, with the owner's identity, before the first wait.
  static Result<OwnerLock> TakeWithin(const std::string& folder, const std::string& purpose,
                                      Duration limit,
                                      const std::function<void(const std::string&)>& waits);

  // Open, close-on-exec. A process that is started with it holds the lock until it ends.
  int fd() const { return fd_.get(); }

 private:
  explicit OwnerLock(Fd fd) : fd_(std::move(fd)) {}

  Fd fd_;
};

}  // namespace longhaul::io
