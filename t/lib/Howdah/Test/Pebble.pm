package Howdah::Test::Pebble;

# An authority for certificates of the test's own: Let's Encrypt's Pebble, with a name server that has 127.0.0.1 for every
# name. It finds the server under test at the ports that it was told.
#
#   my $pebble = Howdah::Test::Pebble->start(tls => $port, http => $other, valid => 3600, env => {...});
#   Howdah::Test::Pebble->start(keys => {'its customer' => $base64}, ...);    # which alone may open accounts
#   Howdah::Test::Server->start(options => ['--acme', 'a.example', $pebble->options], ...);    # or ->options($other_root)
#   $pebble->issued;    # how many certificates
use strict;
use warnings;

use File::Temp ();
use Howdah::Test::File qw(read_if_any);
use Howdah::Test::Ports qw(free_port);
use Howdah::Test::Tls;
use IO::Socket::INET ();
use JSON::PP ();
use POSIX ();
use Time::HiRes qw(sleep time);

use constant PATIENCE => 20;

sub is_installed { return _program('pebble') && _program('pebble-challtestsrv') }

sub start {
    my ($class, %wish) = @_;
    my $dir  = File::Temp->newdir('howdah-test-XXXXXX', TMPDIR => 1);
    my $ca   = Howdah::Test::Tls->new(ca => 1, subject => '/CN=root of the authority');
    my $self = bless {dir => $dir, owner => $$, ca => $ca, port => free_port(), dns => free_port()}, $class;
    $self->{cert} = Howdah::Test::Tls->new(by => $ca, names => ['localhost', '127.0.0.1']);
    $self->_configure(%wish);
    $self->_run(
        'names', {}, 'pebble-challtestsrv', '-dns01', "127.0.0.1:$self->{dns}", '-management',
        '127.0.0.1:' . free_port(),
        map { ("-$_", '') } qw(http01 https01 tlsalpn01 defaultIPv6)
    );
    my $env = {PEBBLE_VA_NOSLEEP => 1, PEBBLE_WFE_NONCEREJECT => 0, PEBBLE_AUTHZREUSE => 0, %{$wish{env} // {}}};
    $self->_run('authority', $env, 'pebble', '-config', "$dir/config.json", '-dnsserver', "127.0.0.1:$self->{dns}");
    my $end = time + PATIENCE;
    until (IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $self->{port})) {
        die 'pebble does not start: ' . $self->log if time > $end;
        sleep 0.05;
    }
    return $self;
}

sub options {
    my ($self, $root) = @_;
    return ('--acme-directory', "https://localhost:$self->{port}/dir", '--acme-ca', ($root // $self->{ca})->cert);
}

sub log {    ## no critic (ProhibitBuiltinHomonyms)
    my $self = shift;
    return read_if_any("$self->{dir}/authority.log");
}

sub issued { my @all = $_[0]->log =~ /Issued certificate serial/g; return scalar @all }

sub _configure {
    my ($self, %wish) = @_;
    my $validity = $wish{valid} // 90 * 24 * 3600;
    my $keys     = JSON::PP::encode_json($wish{keys} // {});
    my $required = $wish{keys} ? 'true' : 'false';
    open my $out, '>', "$self->{dir}/config.json" or die $!;
    print {$out} <<"JSON";
{ "pebble": {
    "listenAddress": "127.0.0.1:$self->{port}", "managementListenAddress": "",
    "certificate": "${\$self->{cert}->cert}", "privateKey": "${\$self->{cert}->key}",
    "httpPort": ${\($wish{http} // 1)}, "tlsPort": ${\($wish{tls} // 1)},
    "ocspResponderURL": "", "externalAccountBindingRequired": $required, "externalAccountMACKeys": $keys, "certificateValidityPeriod": $validity
} }
JSON
    return close $out;
}

sub _run {
    my ($self, $name, $env, $program, @arguments) = @_;
    defined(my $pid = fork) or die "cannot fork: $!";
    if (!$pid) {
        open STDOUT, '>', "$self->{dir}/$name.log" or die $!;
        open STDERR, '>&', \*STDOUT or die $!;
        @ENV{keys %$env} = values %$env;
        exec {_program($program)} $program, @arguments or POSIX::_exit(127);
    }
    push @{$self->{pids}}, $pid;
    return;
}

sub _program {
    my $name = shift;
    my ($found) = grep { -x } map { "$_/$name" } split(/:/, $ENV{PATH}), '/usr/bin', "$ENV{HOME}/go/bin";
    return $found;
}

sub DESTROY {
    my $self = shift;
    return if $self->{owner} != $$;
    local ($@, $!, $?);
    kill TERM => @{$self->{pids} // []};
    waitpid $_, 0 for @{$self->{pids} // []};
    return;
}

1;
