package Howdah::Test::Carry;

# A program of somebody else's, walked through in each way in which Howdah can run it: the walk is the same, so are the
# answers.
#
#   Howdah::Test::Carry->new(program => '/usr/lib/cgi-bin/gitweb.cgi', at => '/gitweb', env => {GITWEB_CONFIG => $file},
#       ways => [qw(wrapped exec fork keep)])->walk(sub {
#       my $agent = shift;    # a Howdah::Test::Agent whose addresses begin at /gitweb
#       ...
#   });
#
# `exec`, `fork`, `keep` and `auto` are the modes of --cgi. `wrapped` is Plack::App::WrapCGI in an application, which executes
# the program from a worker. `kept` is the program for `keep`, if that wants another,
# and `says` what the error log may have of it.
use strict;
use warnings;

use File::Temp ();
use Howdah::Test::Agent;
use Howdah::Test::Server;
use Test::More;

sub new {
    my ($class, %with) = @_;
    return bless {env => {}, says => qr/(?!)/, %with}, $class;
}

# Once a way; a program that is not installed skips the test.
sub walk {
    my ($self, $steps) = @_;
    my $program = $self->{program};
    -x $program or plan skip_all => "$program is not installed";
    for my $way (@{$self->{ways}}) {
        subtest $way => sub {
            my $server = $self->_server($way);
            my $agent  = Howdah::Test::Agent->new($server->url . $self->{at});
            $steps->($agent, $way, $server);
            is $server->stop, 0, 'the server stops';
            is_deeply [$self->_modes], [$way eq 'auto' ? $self->{auto} : $way], 'all was run in this way'
                if $way ne 'wrapped';
            my @complaints = grep { !/$self->{says}/ } $server->log =~ /^(\S+ (?:WARN|ERROR) .*)$/mg;
            is "@complaints", '', 'and had nothing else to complain of';
        };
    }
    done_testing;
    return;
}

# Those that stand in the access log.
sub _modes {
    my $self = shift;
    open my $in, '<', $self->{access} or die "cannot read the access log: $!";
    my %modes = map { $_ => 1 } <$in>;
    return map { s/\n//r } sort keys %modes;
}

sub _server {
    my ($self, $way) = @_;
    return $self->_wrapped if $way eq 'wrapped';
    my %env     = %{$self->{env}};
    my $program = $way eq 'keep' && $self->{kept} || $self->{program};
    my @options =
        ('--cgi', "$self->{at}=$program,mode=$way", map { ('--cgi-env', "$_=$env{$_}") } sort keys %env);
    $self->{access} = File::Temp->new;
    push @options, '--access-log', "$self->{access}", '--access-log-format', '%{HOWDAH_CGI_MODE}e';
    return Howdah::Test::Server->start(options => \@options);
}

sub _wrapped {
    my $self = shift;
    return Howdah::Test::Server->start(env => $self->{env}, app => <<"PSGI");
use Plack::App::URLMap;
use Plack::App::WrapCGI;
my \$map = Plack::App::URLMap->new;
\$map->map('$self->{at}' => Plack::App::WrapCGI->new(script => '$self->{program}', execute => 1)->to_app);
\$map->to_app;
PSGI
}

1;
