// The functions of libpq (PostgreSQL's client library), which is opened when a controller is
// started with a log in PostgreSQL. Other programs and other machines therefore do not need it.
#pragma once

#include <libpq-fe.h>

#include "base/status.h"

namespace longhaul::service {

struct PostgresLibrary {
  decltype(&::PQconninfoParse) conninfo_parse;
  decltype(&::PQconninfoFree) conninfo_free;
  decltype(&::PQfreemem) free_memory;
  decltype(&::PQconnectStartParams) connect_start;
  decltype(&::PQconnectPoll) connect_poll;
  decltype(&::PQstatus) status;
  decltype(&::PQerrorMessage) error_message;
  decltype(&::PQfinish) finish;
  decltype(&::PQsocket) socket;
  decltype(&::PQsetnonblocking) set_nonblocking;
  decltype(&::PQsendQueryParams) send_query;
  decltype(&::PQflush) flush;
  decltype(&::PQconsumeInput) consume_input;
  decltype(&::PQisBusy) is_busy;
  decltype(&::PQgetResult) get_result;
  decltype(&::PQresultStatus) result_status;
  decltype(&::PQresultErrorMessage) result_error;
  decltype(&::PQresultErrorField) result_error_field;
  decltype(&::PQntuples) rows;
  decltype(&::PQgetvalue) value;
  decltype(&::PQgetlength) length;
  decltype(&::PQclear) clear;
};

// Opens libpq.so.5, once for the process. kFailedPrecondition, with the remedy, when it is missing.
Result<const PostgresLibrary*> LoadPostgresLibrary();

}  // namespace longhaul::service
