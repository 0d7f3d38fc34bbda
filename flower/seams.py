"""The Flower internals that this project uses, their versions, and the loss without them.

Seven changes to Flower would make most of them unnecessary. ``python -m aoi_fl.lab.benchmarks calls`` measures what
they save; docs/benchmarks.md has the numbers.

1. Expire tasks by a timer. ``get_run_status`` writes in every call, so every call waits for SQLite's write lock
   (``keep_answers`` in superlink.py).
2. Check for an abort without a write: a run's status, kept for a second or until it changes (the same function).
3. Store the messages of ``push_messages`` in one transaction, by plain statements (plain.py, plain_messages.py).
4. Send a record of arrays as one object. Each object costs about three calls (aoi_fl/protocol/packing.py).
5. Deliver a message again if no receipt is confirmed within a minute. ``get_message_ins`` marks it as delivered before
   the answer leaves the process. Here the round counts the client as late.
6. Make the numbers of pending calls and of threads settings (``let_calls_wait``, ``use_few_threads``).
7. Retry calls that a busy SuperLink refuses: ``RESOURCE_EXHAUSTED``, ``CANCELLED`` (``be_patient`` in supernode.py).

Over HTTP a call passes nine layers of middleware; lane.py is a short way. A reply with ``ttl = NaN`` is stored as NULL,
and every call that names its message then fails.
"""

from aoi_fl.flower.versions import GRPC, HTTP, SPOKEN, Seam

_BOTH = SPOKEN or GRPC  # the version that is there, if it deploys our programs
# The modules that check a client's key, that answer its calls, and that connect a SuperNode; Flower's grid over a
# network, module and class, and its attribute with the calls of the Runtime API.
AUTH, HANDLERS, LINK, GRID, CALLS = {
    GRPC: (
        "flwr.server.superlink.fleet.grpc_rere.node_auth_server_interceptor",
        "flwr.server.superlink.fleet.message_handler.message_handler",
        "flwr.client.grpc_rere_client.connection",
        ("grpc_grid", "GrpcGrid"),
        "_stub",
    ),
    HTTP: (
        "flwr.superlink.routers.fleet.node_auth",
        "flwr.superlink.servicer.fleet.fleet_handlers",
        "flwr.supernode.fleet_http_connection",
        ("http_grid", "HttpGrid"),
        "_runtime_client",
    ),
}[_BOTH]

MESSAGES = Seam(
    "messages and runs without a SuperLink",
    "messages",
    """
    flwr.supercore.run: Run.create_empty
    flwr.app.message.message: Message.__init__(metadata)
    flwr.app.metadata: Metadata.run_id Metadata.src_node_id Metadata.message_id
    """,
    "messages cannot be made outside of a run, which the local engine needs",
)
IDENTITY = Seam(
    "the sender of a message",
    "messages",
    """
    flwr.supercore.task_identity: TaskIdentity.__class__.run_id TaskIdentity.__class__.node_id
    flwr.supercore.task_identity: TaskIdentity.__class__.task_id
    """,
    on=HTTP,
)
ERRORS = Seam(
    "the codes of error replies",
    "errors",
    """
    flwr.common.constant: ErrorCode.CLIENT_APP_RAISED_EXCEPTION ErrorCode.MESSAGE_UNAVAILABLE
    flwr.common.constant: ErrorCode.NODE_UNAVAILABLE ErrorCode.UNKNOWN
    """,
    "a client that has left cannot be distinguished from a client that failed",
)
LOOP = Seam(
    "the waits of a SuperNode",
    "supernode",
    """
    flwr.supernode.cli: flower_supernode
    flwr.supernode.start_client_internal: time.sleep subprocess.Popen
    """,
    "this SuperNode polls for messages every three seconds, however many there are",
)
GATE = Seam(
    "the doors of a SuperNode",
    "gate",
    """
    flwr.supernode.start_client_internal: _init_connection _push_messages(state,object_store,send,push_object)
    flwr.supercore.inflatable.inflatable_object: get_all_nested_objects get_object_tree iterate_object_tree
    flwr.supercore.inflatable.inflatable_object: no_object_id_recompute
    flwr.supercore.inflatable.inflatable_utils: inflate_object_from_contents pull_objects
    flwr.supercore.inflatable.inflatable_utils: push_object_contents_from_iterable
    flwr.supercore.run: RunNotRunningException
    """,
    "the owner's rules do not hold outside of the app",
)
BEATS = Seam(
    "heartbeats and retries of a SuperNode",
    "supernode",
    f"""
    {LINK}: HeartbeatSender(heartbeat_fn) HEARTBEAT_DEFAULT_INTERVAL
    gRPC flwr.supernode.start_client_internal: make_simple_grpc_retry_invoker
    HTTP flwr.supernode.fleet_http_connection: make_simple_http_retry_invoker
    flwr.supercore.retry: RetryInvoker(should_giveup)
    """,
    on=_BOTH,
)
WARM = Seam(
    "a SuperExec with its libraries loaded",
    "superexec",
    """
    flwr.supernode.runtime.run_clientapp: run_clientapp(runtime_api_address,token,insecure)
    flwr.supernode.runtime.run_clientapp: run_clientapp(certificates,parent_pid,runtime_dependency_install)
    flwr.supercore.superexec.executor.types: LaunchResult.accepted LaunchResult.failed
    flwr.supercore.superexec.run_superexec: get_executor time.sleep
    flwr.supercore.superexec.run_superexec: run_superexec(runtime_api_address,insecure,parent_pid)
    gRPC flwr.supercore.superexec.run_superexec: run_superexec(plugin_class,stub_class,runtime_api_address,insecure)
    gRPC flwr.supercore.superexec.run_superexec: run_superexec(root_certificates_path,runtime_dependency_install)
    gRPC flwr.proto.runtime_pb2_grpc: RuntimeStub
    gRPC flwr.supercore.superexec.plugin: ClientAppExecPlugin
    HTTP flwr.supercore.superexec.executor.types: Executor.get_eligible_capacity Executor.reconcile Executor.close
    """,
    "this client starts a process for each message, and each process imports the libraries again",
    on=_BOTH,
)
CONTROL = Seam(
    "keys and runs",
    "control",
    """
    flwr.proto.control_pb2: RegisterNodeRequest UnregisterNodeRequest ListNodesRequest ListRunsRequest StopRunRequest
    flwr.proto.control_pb2: StreamLogsRequest
    gRPC flwr.proto.control_pb2_grpc: ControlStub
    HTTP flwr.supercore.control: ControlHttpClient.from_server_address
    HTTP flwr.supercore.interceptors: RuntimeVersionHttpInterceptor
    """,
    "`docker compose up` needs the SuperLink's Control API",
    on=_BOTH,
)
FLEET = Seam(
    "the end of a former session and a check of a client's key",
    "fleet",
    """
    flwr.proto.fleet_pb2: ActivateNodeRequest DeactivateNodeRequest
    flwr.proto.heartbeat_pb2: SendNodeHeartbeatRequest
    flwr.proto.node_pb2: Node
    flwr.common.constant: HEARTBEAT_MIN_INTERVAL PUBLIC_KEY_HEADER SIGNATURE_HEADER TIMESTAMP_HEADER
    flwr.common.constant: SYSTEM_TIME_TOLERANCE TIMESTAMP_TOLERANCE
    flwr.supercore.primitives.asymmetric: public_key_to_bytes sign_message
    gRPC flwr.proto.fleet_pb2_grpc: FleetStub
    HTTP flwr.supernode.fleet_http_client: FleetHttpClient.from_server_address FleetHttpClient.SendNodeHeartbeat
    HTTP flwr.supernode.fleet_http_client: FleetHttpClient.ActivateNode FleetHttpClient.DeactivateNode
    HTTP flwr.supernode.node_auth_http_interceptor: NodeAuthHttpInterceptor(private_key,public_key)
    """,
    "a client that was killed is refused until its former session ends, and `aoi doctor` cannot try its key",
    on=_BOTH,
)
SIZES = Seam(
    "bytes on the wire",
    "messages",
    """
    flwr.common.serde: message_to_proto message_from_proto
    flwr.supercore.inflatable.inflatable_object: get_all_nested_objects
    """,
    "the bytes of a message on the wire cannot be counted",
)
REPLIES = Seam(
    "polls for many replies in one call",
    "replies",
    f"""
    flwr.superlink.grid.{GRID[0]}: {GRID[1]}.pull_messages(message_ids) {GRID[1]}.{CALLS} {GRID[1]}.run
    flwr.proto.runtime_pb2: PullAppMessagesRequest
    flwr.proto.message_pb2: PullObjectRequest ConfirmMessageReceivedRequest
    flwr.app: Metadata
    flwr.supercore.inflatable.inflatable_utils: inflate_object_from_contents
    """,
    "each reply costs its own calls, and one that is still being uploaded holds up the others, past the deadline",
    on=_BOTH,
)
GRIDS = Seam(
    "replies over a network, and retries of calls",
    "grids",
    """
    gRPC flwr.superlink.grid.grpc_grid: GrpcGrid make_simple_grpc_retry_invoker
    gRPC flwr.supercore.retry: RetryInvoker(should_giveup,on_success)
    HTTP flwr.superlink.grid.http_grid: HttpGrid
    """,
    on=_BOTH,
)
DATABASE = Seam(
    "one connection to a SuperLink's database",
    "superlink",
    """
    flwr.supercore.sql_mixin: create_engine(url) SqlMixin.initialize
    """,
    "with many clients a SuperLink waits for its own database, and calls fail",
)
ANSWERS = Seam(
    "a cache of frequent queries to a SuperLink's database",
    "superlink",
    """
    flwr.server.superlink.linkstate.sql_linkstate: SqlLinkState._cleanup_expired_task_tokens
    flwr.server.superlink.linkstate.sql_linkstate: SqlLinkState.get_run_status(run_ids)
    flwr.server.superlink.linkstate.sql_linkstate: SqlLinkState.get_run_info(run_ids) SqlLinkState.get_fab(fab_hash)
    flwr.server.superlink.linkstate.sql_linkstate: SqlLinkState.create_run SqlLinkState.claim_task
    flwr.server.superlink.linkstate.sql_linkstate: SqlLinkState.activate_task SqlLinkState.finish_task
    flwr.server.superlink.linkstate.sql_linkstate: SqlLinkState._on_task_tokens_expired SqlLinkState.store_fab
    flwr.server.superlink.linkstate.sql_linkstate: SqlLinkState.store_app
    flwr.server.superlink.linkstate.sql_linkstate: SqlLinkState.get_task_by_token(token)
    """,
    "each call to a SuperLink costs several writes to its database",
    on=_BOTH,
)
PLAIN = Seam(
    "plain SQL statements to a SuperLink's database",
    "plain",
    """
    flwr.supercore.object_store.sql_object_store: SqlObjectStore.preregister(run_id,object_tree)
    flwr.supercore.object_store.sql_object_store: SqlObjectStore.get_object_tree(object_id)
    flwr.supercore.object_store.sql_object_store: SqlObjectStore.put(object_id,object_content)
    flwr.supercore.object_store.sql_object_store: SqlObjectStore.get(object_id) SqlObjectStore.delete(object_id)
    flwr.supercore.object_store.sql_object_store: SqlObjectStore._mutation_session
    flwr.supercore.object_store.sql_object_store: SqlObjectStore._lock_objectstore_mutation
    flwr.server.superlink.linkstate.sql_linkstate: SqlLinkState.preregister_object_tree(object_tree,session_id)
    flwr.server.superlink.linkstate.sql_linkstate: SqlLinkState.store_object(run_id,session_id,object_id,object_content)
    flwr.server.superlink.linkstate.sql_linkstate: SqlLinkState.store_traffic(run_id,bytes_sent,bytes_recv)
    flwr.server.superlink.linkstate.sql_linkstate: SqlLinkState.get_node_id_by_public_key(public_key)
    flwr.server.superlink.linkstate.sql_linkstate: SqlLinkState.acknowledge_node_heartbeat(node_id,heartbeat_interval)
    flwr.server.superlink.linkstate.sql_linkstate: SqlLinkState.add_clientapp_runtime(run_id,runtime)
    flwr.server.superlink.linkstate.sql_linkstate: SqlLinkState.start_session(run_id)
    flwr.server.superlink.linkstate.sql_linkstate: SqlLinkState._lock_run(run_id,require_unfinished)
    flwr.server.superlink.linkstate.sql_linkstate: SqlLinkState.store_message_ins(message)
    flwr.server.superlink.linkstate.sql_linkstate: SqlLinkState.store_message_res(message)
    flwr.server.superlink.linkstate.sql_linkstate: SqlLinkState.get_valid_message_ins(message_id)
    flwr.server.superlink.linkstate.sql_linkstate: SqlLinkState._check_stored_messages(message_ids)
    flwr.server.superlink.linkstate.sql_linkstate: SqlLinkState._load_message_ins_rows(message_ids)
    flwr.server.superlink.linkstate.sql_linkstate: SqlLinkState._claim_message_ins_rows(node_id,limit)
    flwr.server.superlink.linkstate.sql_linkstate: SqlLinkState.delete_messages(message_ins_ids)
    flwr.server.superlink.linkstate.sql_linkstate: SqlLinkState.get_message_res(message_ids)
    flwr.server.superlink.linkstate.utils: message_to_dict(message)
    flwr.server.utils.validator: validate_message(message,is_reply_message)
    flwr.server.superlink.linkstate.sql_linkstate: SqlLinkState._cleanup_push_session SqlLinkState.session
    flwr.superlink.federation: NoOpFederationManager
    flwr.server.superlink.linkstate.linkstate_factory: SqlLinkState
    flwr.supercore.object_store.object_store_factory: SqlObjectStore
    flwr.supercore.sql_mixin: _current_sessions SqlMixin.session
    flwr.superlink.servicer.runtime.runtime_handlers: push_messages(request,state,task)
    """,
    "each call to a SuperLink costs several times the CPU time of its statements",
    on=_BOTH,
)
LINES = Seam(
    "a log without a line for each look",
    "superlink",
    """
    flwr.common.logger: FLOWER_LOGGER
    flwr.server.superlink.fleet.grpc_rere.fleet_servicer: log(level,msg) MessageToDict FleetServicer.PullMessages
    """,
    "a SuperLink logs a line for each look of each client",
    on=GRPC,
)
THREADS = Seam(
    "fewer threads for a SuperLink's calls",
    "superlink",
    """
    flwr.superlink.cli.flower_superlink: generic_create_grpc_server(max_concurrent_workers)
    flwr.superlink.servicer.runtime.runtime_grpc: generic_create_grpc_server(max_concurrent_workers)
    """,
    "with many clients the threads of a SuperLink wait for one another",
    on=GRPC,
)
KEYS = Seam(
    "a cache of parsed keys and versions",
    "superlink",
    f"""
    {AUTH}: bytes_to_public_key(public_key_bytes)
    flwr.supercore.runtime_version_compatibility: Version
    """,
    "a SuperLink parses a client's key in every call",
    on=_BOTH,
)
INTAKE = Seam(
    "a check of replies when nodes send them",
    "superlink",
    f"""
    {HANDLERS}: push_messages(request,state)
    flwr.superlink.servicer.runtime.runtime_handlers: push_messages(request,state,task)
    flwr.server.superlink.linkstate: LinkState.store_object
    flwr.proto.fleet_pb2: PushMessagesRequest PushMessagesResponse
    """,
    "a node can block the SuperLink with a reply of very many objects",
    on=_BOTH,
)
DOORS = Seam(
    "calls that only the inner network may make",
    "doors",
    """
    flwr.superlink.extensions: get_middleware
    flwr.superlink.main: create_app
    """,
    "its SuperLink cannot serve clients without accepting their commands",
    on=HTTP,
)
LANE = Seam(
    "a short way for frequent calls over HTTP",
    "lane",
    """
    flwr.superlink.extensions: get_middleware
    flwr.superlink.main: create_app
    flwr.superlink.servicer.fleet.fleet_handlers: MessageToDict
    flwr.superlink.routers.fleet.node_auth: authenticate_node(request)
    flwr.superlink.routers.fleet.router: fleet_activate_node(request,state) fleet_get_run(request,state)
    flwr.superlink.routers.fleet.router: fleet_confirm_message_received(request,state) fleet_get_fab(request,state)
    flwr.superlink.routers.fleet.router: fleet_pull_messages(request,state) fleet_pull_object(request,state)
    flwr.superlink.routers.fleet.router: fleet_push_messages(request,state) fleet_push_object(request,state)
    flwr.superlink.routers.fleet.router: fleet_send_node_heartbeat(request,state)
    flwr.supercore.dependencies.task: authenticate_task(request,token,state) TASK_TOKEN_HEADER
    flwr.supercore.http_logging: ROUTINE_ACCESS_PATHS
    flwr.supercore.logger: console_handler
    flwr.supercore.dependencies.version: VersionDependency(component_name,connection_name)
    flwr.supercore.error.http: http_error_translator(request,call_next)
    flwr.supercore.protobuf.translation: PROTOBUF_REQUEST_TYPES ProtobufTranslationMiddleware._parse_request
    flwr.supercore.protobuf.translation: ProtobufTranslationMiddleware._check_request_media_type(request)
    """,
    on=HTTP,
)
OUTPUT = Seam(
    "the ServerApp's lines in the log of its SuperExec",
    "superexec",
    """
    flwr.supercore.superexec.plugin: ServerAppExecPlugin.suppress_output
    flwr.common.logger: update_console_handler(timestamps,colored)
    """,
    "the SuperExec does not show the ServerApp's output, which is in the run's log only",
    on=GRPC,
)

SEAMS = tuple(seam for seam in vars().values() if isinstance(seam, Seam))
