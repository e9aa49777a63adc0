// Watches the kernel's log (/dev/kmsg) for errors of devices.
//
// Each read returns one record: "4,1234,5140900,-;text", priority and facility, number, time in
// microseconds, flags (Documentation/ABI/testing/dev-kmsg of the kernel). Only those of the kernel
// itself count, which no process can write. What was written before is not read. The same error of
// a device is reported once a minute.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/time.h"
#include "io/event_loop.h"
#include "io/fd.h"
#include "service/agent/devices/device_error.h"

namespace longhaul::service {

class KernelLog {
 public:
  using Found = std::function<void(const DeviceError&)>;

  // `loop` outlives it. kPermissionDenied without the right to read the log.
  static Result<std::unique_ptr<KernelLog>> Open(io::EventLoop& loop, const std::string& path,
                                                 Found found);
  ~KernelLog();
  KernelLog(const KernelLog&) = delete;
  KernelLog& operator=(const KernelLog&) = delete;

 private:
  KernelLog(io::EventLoop& loop, io::Fd log, Found found);
  void Read();
  void TakeLine(std::string_view line);

  io::EventLoop& loop_;
  const io::Fd log_;
  const Found found_;
  std::map<std::pair<std::string, uint32_t>, Instant> reported_;  // by device and code
};

// The text of a record's first line; empty: it is not of the kernel itself, or no record.
std::string_view KernelText(std::string_view line);

}  // namespace longhaul::service
