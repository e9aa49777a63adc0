// The highest term of a controller that an agent has followed (docs/standby.md).
//
// A controller of a lower term was replaced by another one, even if it does not know that yet, and
// is refused. The term is kept in a file of the agent's state directory, so that the agent's next
// life refuses it too. One thread at a time.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace longhaul::service {

class ControllerTerm {
 public:
  // Reads the file; there is none while the agent has seen no term. kDataLoss: it has no number.
  static Result<ControllerTerm> Open(const std::string& path);

  // Returns OK if the agent may follow a controller of this term: then a higher one is in the file.
  // kFailedPrecondition, with the remedy, for a lower one.
  Status Accept(uint64_t term);
  uint64_t highest() const { return highest_; }

 private:
  ControllerTerm(std::string path, uint64_t highest) : path_(std::move(path)), highest_(highest) {}

  std::string path_;
  uint64_t highest_;
};

}  // namespace longhaul::service
