// Shared by the files behind include/longhaul.h: turns results and exceptions into error codes, and
// checks arguments.
#pragma once

#include <cstddef>
#include <exception>
#include <new>
#include <span>
#include <vector>

#include "base/status.h"
#include "checkpoint/state.h"
#include "longhaul.h"

namespace longhaul::worker_api {

// Fills `error` unless it is null. Returns the code.
int ReportError(const Status& status, longhaul_error* error);

// Runs `body` and converts its result or exception to a code.
template <typename Body>
int AtTheEdge(longhaul_error* error, Body body) noexcept {
  try {
    return ReportError(body(), error);
  } catch (const std::bad_alloc&) {
    return ReportError(Status(Code::kResourceExhausted, "out of memory"), error);
  } catch (const std::exception& exception) {
    return ReportError(Status(Code::kInternal, exception.what()), error);
  } catch (...) {
    return ReportError(Status(Code::kInternal, "unknown exception"), error);
  }
}

struct GivenTensors {
  checkpoint::StatePlan plan;
  std::vector<std::span<std::byte>> memory;
};

// Returns kInvalidArgument with the name of the invalid tensor.
Result<GivenTensors> TakeTensors(const longhaul_tensor* tensors, const longhaul_part* parts,
                                 size_t count);

}  // namespace longhaul::worker_api
