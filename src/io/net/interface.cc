#include "io/net/interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <array>
#include <cerrno>
#include <memory>

namespace longhaul::io {
namespace {

// In the notation of inet_ntop; empty: not an address of IP.
std::string NumericAddress(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = nullptr;
  if (address == nullptr) return "";
  if (address->sa_family == AF_INET) {
    bytes = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  } else if (address->sa_family == AF_INET6) {
    bytes = &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  }
  if (bytes == nullptr) return "";
  return inet_ntop(address->sa_family, bytes, text.data(), text.size()) == nullptr ? ""
                                                                                   : text.data();
}

}  // namespace

Result<std::string> InterfaceOf(const std::string& address) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return FromErrno(errno, "cannot list the network interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (NumericAddress(each->ifa_addr) == address) return std::string(each->ifa_name);
  }
  return NotFound("no network interface has the address " + address);
}

}  // namespace longhaul::io
