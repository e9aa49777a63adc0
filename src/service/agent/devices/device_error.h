// Errors of devices that a driver has written to the kernel's log.
//
// NVIDIA's driver writes "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus." The catalog
// of these numbers, with the action that each demands of the operator, is
// https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html. A device must be reset if
// the catalog demands RESET_GPU or RESTART_BM, for 48 if a workflow that ends in a reset, and for
// 154 ("GPU recovery action changed") if the driver itself names a reset or a reboot. Not for 74
// and 155: a link that is down may be the fault of the device at its other end. Leaves out errors
// of switches (SXid) and of other drivers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace longhaul::service {

struct DeviceError {
  std::string device;  // "PCI:0000:3b:00", at most 40 bytes
  uint32_t code = 0;   // Xid
  std::string text;    // at most 310 bytes
  bool needs_reset = false;
};

// Returns nothing for a message of the kernel that is no such error.
std::optional<DeviceError> DeviceErrorOf(std::string_view message);

}  // namespace longhaul::service
