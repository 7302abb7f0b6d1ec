"""The names of what can go wrong, each in exactly one row of the policy table.

A row decides what happens; a reason says why it is in that row, in one word that people can search for and that code
may ask for. A provider's own words are looked up here, never compared anywhere else. Pure data.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import cast

from capataz.events.facts import Row
from capataz.mistakes import PolicyMisuse

ROWS: tuple[Row, ...] = ("transient", "rate_limit", "invalid_input", "auth", "contract", "unknown", "ours")


def _lines(text: str) -> Mapping[str, tuple[Row, str]]:
    """Read a table written as `row reason:` with the words that mean it below; a word may stand there once."""
    found: dict[str, tuple[Row, str]] = {}
    row, reason = ROWS[0], ""
    for line in text.strip().splitlines():
        if line.endswith(":"):
            name, reason = line[:-1].split()
            row = ROWS[ROWS.index(cast("Row", name))]
            continue
        for word in line.split():
            if word in found:
                raise PolicyMisuse(f"the taxonomy names {word} twice")
            found[word] = (row, reason)
    return MappingProxyType(found)


# Codes and types as providers write them, lower case, without blanks and dashes.
CODES = _lines("""
auth quota:
    insufficient_quota billing_error billing_hard_limit_reached billing_not_active quota_exceeded
    credits_exhausted payment_required insufficient_credits insufficient_balance
    insufficient_user_quota exceeded_current_quota_error
auth authentication:
    authentication_error invalid_api_key unauthenticated unauthorized api_key_invalid
    invalid_authentication incorrect_api_key missing_api_key expired_api_key
    unrecognizedclientexception expiredtokenexception invalid_authentication_error
    invalidsignatureexception missingauthenticationtokenexception no_api_key expired_token
    invalid_token incompletesignatureexception
auth permission:
    permission_error permission_denied accessdeniedexception forbidden account_deactivated
    permissiondenied accessdenied access_denied service_disabled consumer_suspended
    organization_restricted access_terminated_error model_not_allowed
    unsupported_country_region_territory user_not_allowed ip_not_allowed
rate_limit rate-limit:
    rate_limit_exceeded rate_limit_error rate_limited too_many_requests ratelimitreached
    ratelimiterror resource_exhausted throttlingexception throttling toomanyrequestsexception
    requests tokens rate_limit rate_limit_reached_error request_limit_exceeded
    servicequotaexceededexception toomanyrequests
transient overloaded:
    overloaded_error server_is_overloaded engine_overloaded overloaded slow_down model_overloaded
    engine_overloaded_error service_tier_capacity_exceeded capacity_exceeded modelnotreadyexception
transient server-error:
    api_error server_error internal_server_error internal_error internal internalserverexception
    unavailable service_unavailable unavailable_error serviceunavailableexception bad_gateway
    service_unavailable_error internalservererror serviceunavailable upstream_error provider_error
    modelstreamerrorexception modelerrorexception stream_error processing_error aborted cancelled
    service_error response_failed internal_failure internalfailure bad_response_status_code
    unknown_error
transient timeout:
    deadline_exceeded timeout_error timeout gateway_timeout modeltimeoutexception request_timeout
    upstream_timeout
transient connection:
    connection_error connection_closed network_error
invalid_input context-too-long:
    context_length_exceeded exceed_context_size_error prompt_too_long model_context_window_exceeded
    context_window_exceeded input_too_long max_prompt_length_exceeded context_too_long
invalid_input too-large:
    request_too_large payload_too_large string_above_max_length array_above_max_length
    request_entity_too_large
invalid_input content-filter:
    content_filter content_policy_violation responsibleaipolicyviolation invalid_prompt
    content_filtered moderation_blocked safety prohibited_content image_content_policy_violation
    contentfilter
invalid_input unsupported-parameter:
    unsupported_parameter unsupported_value unknown_parameter
invalid_input not-found:
    model_not_found not_found not_found_error resourcenotfoundexception deploymentnotfound
    notfounderror model_not_available model_decommissioned modelnotfound invalid_model unknown_model
invalid_input invalid-request:
    invalid_request_error invalid_request invalid_argument badrequesterror bad_request badrequest
    validationexception out_of_range unprocessable_entity validation_error
    missing_required_parameter unprocessableentityerror invalid_type invalid_value
    failed_precondition invalid_request_message invalid_base64 invalid_image image_parse_error
    image_too_large empty_image_file integer_below_min_value
contract malformed-call:
    tool_use_failed malformed_function_call malformed_tool_call output_parse_failed
    unexpected_tool_call json_validate_failed too_many_tool_calls
contract unknown-tool:
    unknown_tool tool_not_found
""")

# Reasons so general that an informative status knows better.
VAGUE = frozenset(("invalid-request", "server-error"))
# What an access status is not: asking for a model one may not use is often answered "not found".
HIDDEN = frozenset(("not-found", "invalid-request"))

STATUSES: Mapping[int, tuple[Row, str]] = MappingProxyType(
    {
        400: ("invalid_input", "invalid-request"),
        401: ("auth", "authentication"),
        402: ("auth", "quota"),
        403: ("auth", "permission"),
        404: ("invalid_input", "not-found"),
        407: ("auth", "authentication"),
        408: ("transient", "timeout"),
        409: ("transient", "conflict"),
        413: ("invalid_input", "too-large"),
        422: ("invalid_input", "invalid-request"),
        429: ("rate_limit", "rate-limit"),
        499: ("transient", "cancelled"),
        503: ("transient", "unavailable"),
        504: ("transient", "timeout"),
        529: ("transient", "overloaded"),
    }
)

# Types of exceptions by name: this layer may not import the libraries that raise them.
EXCEPTIONS = _lines("""
transient timeout:
    TimeoutError TimeoutException ConnectTimeout ReadTimeout WriteTimeout PoolTimeout
    APITimeoutError Timeout ServerTimeoutError ConnectTimeoutError ReadTimeoutError
    SocketTimeoutError DeadlineExceeded TimeoutExpired
transient connection:
    ConnectionError ConnectError ReadError WriteError CloseError RemoteProtocolError ProtocolError
    NetworkError TransportError APIConnectionError ServerDisconnectedError ClientConnectionError
    ClientOSError ProxyError ClientPayloadError IncompleteRead IncompleteReadError
    ChunkedEncodingError ContentDecodingError gaierror ClientConnectorError ServerConnectionError
    RemoteDisconnected BadStatusLine MaxRetryError NewConnectionError EndpointConnectionError
    ConnectionClosed TransferEncodingError ContentLengthError SSLZeroReturnError SSLEOFError
    SSLError ClientSSLError URLError HTTPException ClosedResourceError BrokenResourceError
    EndOfStream EOFError ResourceExhaustedError InterfaceError TooManyConnectionsError
auth certificate:
    SSLCertVerificationError CertificateError ClientConnectorCertificateError
auth permission:
    PermissionError PermissionDenied Forbidden AccessDenied InsufficientPrivilege
    InsufficientPrivilegeError
auth authentication:
    Unauthorized AuthenticationError NotAuthenticated InvalidPassword InvalidPasswordError
    InvalidAuthorizationSpecificationError
invalid_input not-found:
    FileNotFoundError NotADirectoryError IsADirectoryError NotFound LookupError
invalid_input invalid-request:
    FileExistsError ValidationError IntegrityError DataError UnicodeError JSONDecodeError InvalidURL
    UnsupportedProtocol MissingSchema InvalidSchema
invalid_input invalid-value:
    ValueError OverflowError
contract bug:
    TypeError AttributeError NameError AssertionError NotImplementedError ImportError
    ZeroDivisionError RecursionError SyntaxError ProgrammingError NotSupportedError
    InvalidStateError StopIteration StopAsyncIteration FloatingPointError ArithmeticError
    ReferenceError BufferError
transient busy:
    BlockingIOError OperationalError DeadlockDetected SerializationFailure LockNotAvailable
transient overloaded:
    OverloadedError ServiceUnavailableError ServiceUnavailable ModelNotReadyException
transient resources:
    MemoryError
unknown cancelled:
    CancelledError KeyboardInterrupt SystemExit GeneratorExit
""")
