// The written form of exchanges with an API server, in which two servers can be compared.
//
// What differs from run to run is replaced: uids, versions, times, continue tokens. What only the
// real server has a reason to send (managedFields) is left out.
#pragma once

#include <string>
#include <string_view>

namespace longhaul::engines::kubernetes {

class Transcript {
 public:
  // A request with its response. A body that is no JSON is written as text; a body of several
  // lines is the events of a watch.
  void Add(std::string_view label, std::string_view method, std::string_view target, int status,
           std::string_view body);
  void AddLine(std::string_view line);

  const std::string& text() const { return text_; }

 private:
  static std::string Normalised(std::string_view json);

  std::string text_;
};

}  // namespace longhaul::engines::kubernetes
